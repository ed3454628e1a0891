-- name: upsert_tasks
INSERT INTO mainspring.tasks (name, queue, timeout_seconds, retry, payload_schema, version)
SELECT asked.name, asked.queue, asked.timeout_seconds, asked.retry, asked.payload_schema, $6
FROM unnest($1::text[], $2::text[], $3::double precision[], $4::jsonb[], $5::jsonb[])
    AS asked (name, queue, timeout_seconds, retry, payload_schema)
ORDER BY asked.name
ON CONFLICT (name) DO UPDATE SET
    queue = excluded.queue, timeout_seconds = excluded.timeout_seconds, retry = excluded.retry,
    payload_schema = excluded.payload_schema, version = excluded.version, updated_at = clock_timestamp()

-- name: payload_schemas
SELECT name, payload_schema FROM mainspring.tasks

-- name: make_queues
INSERT INTO mainspring.queues (name)
SELECT asked.name FROM unnest($1::text[]) AS asked (name)
WHERE NOT EXISTS (SELECT FROM mainspring.queues WHERE queues.name = asked.name)
    AND (SELECT count(*) FROM mainspring.queues) + cardinality($1::text[]) <= 500
ORDER BY asked.name
ON CONFLICT DO NOTHING

-- name: known_queues
SELECT count(*) FROM mainspring.queues WHERE name = ANY ($1::text[])

-- name: adopt_queues
-- Make the queues that submits have used first.
WITH used AS (DELETE FROM mainspring.queue_first_uses RETURNING name)
INSERT INTO mainspring.queues (name) SELECT DISTINCT used.name FROM used ORDER BY used.name
ON CONFLICT DO NOTHING

-- name: queues
SELECT
    queues.name, queues.paused, queues.note, queues.release_window, queues.backs_off_until, limits.most AS concurrency,
    queues.default_priority, queues.default_timeout_seconds, queues.default_retry
FROM mainspring.queues
LEFT JOIN mainspring.limits ON limits.queue = queues.name AND limits.kind = 'concurrency'
ORDER BY queues.name

-- name: pause_queue
UPDATE mainspring.queues SET paused = $2, note = $3 WHERE name = $1 RETURNING name

-- name: set_window
UPDATE mainspring.queues SET release_window = $2 WHERE name = $1 RETURNING name

-- name: set_defaults
-- Each with whether it is to be set.
UPDATE mainspring.queues
SET
    default_priority = CASE WHEN $2 THEN $3::smallint ELSE default_priority END,
    default_timeout_seconds = CASE WHEN $4 THEN $5::double precision ELSE default_timeout_seconds END,
    default_retry = CASE WHEN $6 THEN $7::jsonb ELSE default_retry END
WHERE name = $1
RETURNING name

-- name: set_concurrency
INSERT INTO mainspring.limits (queue, kind, most) VALUES ($1, 'concurrency', $2)
ON CONFLICT (queue, kind) DO UPDATE SET most = excluded.most

-- name: drop_concurrency
DELETE FROM mainspring.limits WHERE queue = $1 AND kind = 'concurrency'

-- name: beat_worker
INSERT INTO mainspring.workers (id, host, pid, version, queues, tasks, slots, free_slots)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (id) DO UPDATE SET
    free_slots = excluded.free_slots, queues = excluded.queues, tasks = excluded.tasks, beat_at = clock_timestamp()

-- name: forget_worker
DELETE FROM mainspring.workers WHERE id = $1

-- name: forget_lost_workers
DELETE FROM mainspring.workers WHERE beat_at < (SELECT clock_timestamp()) - $1::interval

-- name: workers
SELECT id, host, pid, version, queues, tasks, slots, free_slots, started_at, beat_at
FROM mainspring.workers
WHERE beat_at > (SELECT clock_timestamp()) - $1::interval
ORDER BY started_at

-- name: take_leadership
-- The holder renews; anyone takes over when the lease is over, with a new term. The term is a key column, so
-- a takeover waits for the transactions that hold FOR KEY SHARE on the row.
INSERT INTO mainspring.leader AS held (duty, holder, term, expires_at, taken_at)
VALUES ($1, $2, 1, clock_timestamp() + $3::interval, clock_timestamp())
ON CONFLICT (duty) DO UPDATE SET
    holder = excluded.holder,
    term = CASE WHEN held.holder = excluded.holder THEN held.term ELSE held.term + 1 END,
    taken_at = CASE WHEN held.holder = excluded.holder THEN held.taken_at ELSE excluded.taken_at END,
    expires_at = clock_timestamp() + $3::interval
WHERE held.holder = excluded.holder OR held.expires_at < clock_timestamp()
RETURNING term

-- name: hold_leadership
SELECT 1 FROM mainspring.leader WHERE duty = $1 AND holder = $2 AND term = $3 FOR KEY SHARE

-- name: give_up_leadership
UPDATE mainspring.leader SET expires_at = '-infinity' WHERE duty = $1 AND holder = $2

-- name: notify
SELECT pg_notify($1, '')

-- name: now
SELECT clock_timestamp()
