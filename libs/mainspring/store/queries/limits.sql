-- name: named
SELECT * FROM mainspring.limits_now WHERE NOT is_queues_own AND circuit IS NULL ORDER BY name

-- name: of_queue
-- Those that jobs of the queue can be under: whether a job is depends on its task.
SELECT * FROM mainspring.limits_now WHERE $1 = ANY (queues) OR tasks <> '{}' ORDER BY id

-- name: lock_concurrency
-- In one order; whoever holds them counts and admits, and nobody else can in between.
SELECT * FROM mainspring.limits_now
WHERE kind = 'concurrency' AND ($1 = ANY (queues) OR tasks && $2::text[])
ORDER BY id
FOR NO KEY UPDATE

-- name: in_hand
-- The jobs of these limits that are released or hold a slot, counted by what tells them apart. A slot is held from a job's
-- admission until a transition ends it; an expired lease holds it until it is reclaimed. A job whose line doesn't tell all
-- that is asked now (it was drawn before a limit was there, or never) has it drawn again.
-- Where a limit keeps jobs in order one that has begun and waits for its next attempt is named `begun`. One that was in a
-- line before the limit was there doesn't know of it, and waits as others do.
WITH asked AS MATERIALIZED (SELECT * FROM mainspring.limits WHERE id = ANY ($1::integer[])),
scope AS (
    SELECT queue AS name FROM asked WHERE queue IS NOT NULL
    UNION
    SELECT unnest(queues) FROM asked
    UNION
    SELECT queues.name FROM mainspring.queues WHERE EXISTS (SELECT FROM asked WHERE tasks <> '{}')
),
held AS MATERIALIZED (
    SELECT job.queue, job.task, job.state, job.line, array_agg(job.id) AS ids
    FROM scope
    CROSS JOIN LATERAL (
        SELECT id, queue, task, state, line FROM mainspring.live_jobs
        WHERE live_jobs.queue = scope.name AND live_jobs.state IN ('enqueued', 'admitted')
            AND ($2 OR live_jobs.state = 'admitted')
        UNION ALL
        SELECT id, queue, task, state, line FROM mainspring.live_jobs
        WHERE live_jobs.queue = scope.name AND live_jobs.state = 'running'
        UNION ALL
        SELECT id, queue, task, 'begun', line FROM mainspring.live_jobs
        WHERE live_jobs.queue = scope.name AND live_jobs.state IN ('scheduled', 'blocked', 'retrying')
            AND (live_jobs.attempts_used > 0 OR live_jobs.hand_backs > 0)
            AND (live_jobs.state <> 'blocked' OR live_jobs.line IS NULL OR live_jobs.line LIKE '%"begun"]')
            AND (SELECT bool_or(asked.ordered) FROM asked)
    ) AS job
    WHERE EXISTS (
        SELECT FROM asked
        WHERE job.queue = asked.queue OR job.queue = ANY (asked.queues) OR job.task = ANY (asked.tasks)
    )
    GROUP BY job.queue, job.task, job.state, job.line
),
marked AS MATERIALIZED (
    SELECT kind.queue, kind.task, marks.*
    FROM (SELECT DISTINCT queue, task FROM held) AS kind
    CROSS JOIN LATERAL mainspring.line_marks(kind.queue, kind.task) AS marks
),
judged AS MATERIALIZED (
    SELECT held.*, marked.fair_by, marked.is_task_limited, marked.paths,
        marked.paths = '{}' OR coalesce(held.line::jsonb -> 2 ?& marked.paths, false) AS is_told
    FROM held JOIN marked ON marked.queue = held.queue AND marked.task = held.task
)
SELECT queue, task, state, coalesce(line, '["", "", {}]') AS line, cardinality(ids) AS jobs FROM judged WHERE is_told
UNION ALL
SELECT
    judged.queue, judged.task, judged.state,
    mainspring.draw_line(judged.task, details.payload, judged.fair_by, judged.is_task_limited, judged.paths), 1
FROM judged CROSS JOIN unnest(judged.ids) AS one (id) JOIN mainspring.job_details AS details ON details.id = one.id
WHERE NOT judged.is_told

-- name: rate_rooms
-- The tokens that each rate has now for each of these keys, when it has one, and when it has one more than now, at the
-- earliest. Where no more are given in a period than there are, that is after a period.
SELECT
    asked.id, asked.key, found.room, found.free_at - instant.now AS free_in,
    CASE
        WHEN limits.burst <= limits.most AND found.room >= limits.most THEN make_interval(secs => limits.period_seconds)
        ELSE more.free_at - instant.now
    END AS next_in
FROM unnest($1::integer[], $2::text[]) AS asked (id, key)
JOIN mainspring.limits ON limits.id = asked.id
LEFT JOIN mainspring.rates ON rates.limit_id = asked.id AND rates.key = asked.key
CROSS JOIN LATERAL (SELECT greatest(clock_timestamp(), rates.latest) AS now) AS instant
CROSS JOIN LATERAL mainspring.rate_room(limits, rates, instant.now, 1) AS found
CROSS JOIN LATERAL mainspring.rate_room(limits, rates, instant.now, found.room + 1) AS more

-- name: rates_in_use
SELECT rates.key, found.room
FROM mainspring.limits
JOIN mainspring.rates ON rates.limit_id = limits.id
CROSS JOIN LATERAL (SELECT greatest(clock_timestamp(), rates.latest) AS now) AS instant
CROSS JOIN LATERAL mainspring.rate_room(limits, rates, instant.now, 1) AS found
WHERE limits.id = $1
ORDER BY found.room, rates.key
LIMIT $2

-- name: save
INSERT INTO mainspring.limits (
    name, kind, most, queues, tasks, per, period_seconds, burst, cost, note, strategy, ordered
) VALUES ($1, $2, $3, $4::text[], $5::text[], $6, $7, $8, $9, $10, $11, $12)
ON CONFLICT (name) DO UPDATE SET
    kind = excluded.kind, most = excluded.most, queues = excluded.queues, tasks = excluded.tasks, per = excluded.per,
    period_seconds = excluded.period_seconds, burst = excluded.burst, cost = excluded.cost, note = excluded.note,
    strategy = excluded.strategy, ordered = excluded.ordered

-- name: delete
WITH gone AS (DELETE FROM mainspring.limits WHERE name = $1 RETURNING id),
forgotten AS (DELETE FROM mainspring.rates WHERE limit_id = ANY (ARRAY(SELECT gone.id FROM gone)))
SELECT id FROM gone

-- name: forget_rates
-- Keys whose last tokens came back long ago are as full as one that was never used.
DELETE FROM mainspring.rates
WHERE NOT EXISTS (
    SELECT FROM mainspring.limits
    WHERE limits.id = rates.limit_id AND limits.kind = 'rate'
        AND rates.latest >= (SELECT clock_timestamp()) - 2 * greatest(
            make_interval(secs => limits.period_seconds),
            make_interval(secs => limits.period_seconds * limits.burst / limits.most)
        )
)
