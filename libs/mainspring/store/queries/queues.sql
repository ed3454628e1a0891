-- name: all
SELECT
    queues.name, queues.paused, queues.note, queues.paused_at, queues.paused_by, queues.release_window,
    queues.backs_off_until, limits.most AS concurrency, queues.fair_by, queues.fair_weights, queues.default_priority,
    queues.default_timeout_seconds, queues.default_retry, queues.default_expiry_seconds,
    queues.aging_seconds, queues.most_waiting, queues.retention
FROM mainspring.queues
LEFT JOIN mainspring.limits ON limits.queue = queues.name AND limits.kind = 'concurrency'
ORDER BY queues.name

-- name: pause
UPDATE mainspring.queues
SET paused = true, note = $2, paused_at = CASE WHEN paused THEN paused_at ELSE clock_timestamp() END, paused_by = $3
WHERE name = $1 RETURNING name

-- name: resume
UPDATE mainspring.queues SET paused = false, note = NULL, paused_at = NULL, paused_by = NULL
WHERE name = $1 RETURNING name

-- name: change
-- What the settings don't name stays as the row has it.
UPDATE mainspring.queues
SET (
    release_window, fair_by, fair_weights, default_priority, default_timeout_seconds, default_retry,
    default_expiry_seconds, aging_seconds, most_waiting, retention
) = (
    SELECT
        wanted.release_window, wanted.fair_by, wanted.fair_weights, wanted.default_priority,
        wanted.default_timeout_seconds, wanted.default_retry, wanted.default_expiry_seconds,
        wanted.aging_seconds, wanted.most_waiting, wanted.retention
    FROM jsonb_populate_record(queues, $2::jsonb) AS wanted
)
WHERE name = $1
RETURNING name

-- name: make_queues
INSERT INTO mainspring.queues (name)
SELECT asked.name FROM unnest($1::text[]) AS asked (name)
WHERE NOT EXISTS (SELECT FROM mainspring.queues WHERE queues.name = asked.name)
    AND (SELECT count(*) FROM mainspring.queues) + cardinality($1::text[]) <= 500
ORDER BY asked.name
ON CONFLICT DO NOTHING

-- name: known_queues
SELECT count(*) FROM mainspring.queues WHERE name = ANY ($1::text[])

-- name: names
SELECT known.name, bool_and(known.is_made) AS is_made FROM (
    SELECT name, true AS is_made FROM mainspring.queues UNION ALL SELECT name, false FROM mainspring.queue_first_uses
) AS known
GROUP BY known.name

-- name: dispatched
-- What a dispatcher goes by: for each queue whether it is paused, the slots of its largest living worker, and whether
-- jobs of it can be under a concurrency limit.
WITH served AS (
    SELECT served.queue, max(workers.slots) AS slots
    FROM mainspring.workers CROSS JOIN unnest(workers.queues) AS served (queue)
    WHERE workers.beat_at > (SELECT clock_timestamp()) - $1::interval
    GROUP BY served.queue
)
SELECT
    queues.name, queues.paused, served.slots AS largest,
    (
        SELECT true FROM mainspring.limits
        WHERE limits.kind = 'concurrency'
            AND (limits.queue = queues.name OR queues.name = ANY (limits.queues) OR limits.tasks <> '{}')
        LIMIT 1
    ) IS TRUE AS may_be_limited
FROM mainspring.queues
LEFT JOIN served ON served.queue = queues.name

-- name: adopt_queues
-- Make the queues that submits have used first.
WITH used AS (DELETE FROM mainspring.queue_first_uses RETURNING name)
INSERT INTO mainspring.queues (name) SELECT DISTINCT used.name FROM used ORDER BY used.name
ON CONFLICT DO NOTHING

-- name: set_concurrency
INSERT INTO mainspring.limits (queue, kind, most) VALUES ($1, 'concurrency', $2)
ON CONFLICT (queue, kind) DO UPDATE SET most = excluded.most

-- name: drop_concurrency
DELETE FROM mainspring.limits WHERE queue = $1 AND kind = 'concurrency'
