-- name: insert
-- One statement for a batch: what the caller left out comes from the task's entry in the catalogue, then from the queue.
-- A due time is never in the past, so that a release may look from a lower bound on.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
asked AS MATERIALIZED (
    SELECT
        a.id, a.task, a.payload, a.priority, a.run_at, a.delay, a.idempotency_key, a.tags, a.expires_at,
        a.schedule, a.nominal_at, a.traceparent, a.is_released,
        lane.queue,
        coalesce(a.timeout_seconds, tasks.timeout_seconds, queues.default_timeout_seconds, 300) AS timeout_seconds,
        coalesce(a.retry, tasks.retry, queues.default_retry, $17::jsonb) AS retry,
        queues.default_priority, make_interval(secs => queues.default_expiry_seconds) AS default_expiry,
        queues.most_waiting,
        NOT queues.paused AND queues.fair_by IS NULL AND queues.backs_off_until <= clock_timestamp() AS is_open
    FROM unnest(
        $1::uuid[], $2::text[], $3::jsonb[], $4::text[], $5::smallint[], $6::timestamptz[], $7::interval[],
        $8::double precision[], $9::jsonb[], $10::text[], $11::text[], $12::timestamptz[], $13::text[], $14::timestamptz[],
        $15::text[], $16::boolean[]
    ) AS a (
        id, task, payload, queue, priority, run_at, delay, timeout_seconds, retry, idempotency_key, tags, expires_at,
        schedule, nominal_at, traceparent, is_released
    )
    LEFT JOIN mainspring.tasks ON tasks.name = a.task
    CROSS JOIN LATERAL (SELECT coalesce(a.queue, tasks.queue, 'default') AS queue) AS lane
    LEFT JOIN mainspring.queues ON queues.name = lane.queue
),
-- A schedule's job is never refused: nobody would ask again.
room AS MATERIALIZED (
    SELECT mainspring.refuse_full_queue(asked.queue, count(*)::integer, min(asked.most_waiting)) FROM asked
    WHERE asked.most_waiting IS NOT NULL AND asked.schedule IS NULL
    GROUP BY asked.queue
),
made AS (
    INSERT INTO mainspring.queue_first_uses (name)
    SELECT DISTINCT asked.queue FROM asked
    WHERE NOT EXISTS (SELECT FROM mainspring.queues WHERE queues.name = asked.queue)
),
details AS (
    INSERT INTO mainspring.job_details (id, payload, retry, tags, run_at, created_at, nominal_at, traceparent)
    SELECT
        asked.id, asked.payload, asked.retry, string_to_array(asked.tags, E'\x1f'),
        coalesce(asked.run_at, clock.now + coalesce(asked.delay, interval '0')), clock.now,
        asked.nominal_at, asked.traceparent
    FROM asked CROSS JOIN clock
),
-- Of a queue whose credit is lent, a job that is due is released here; not under a limit, which only a release judges.
lent AS MATERIALIZED (
    SELECT asked.id, asked.queue, lender.channel
    FROM unnest($19::text[], $20::text[]) AS lender (queue, channel)
    JOIN asked ON asked.queue = lender.queue AND asked.is_open
    CROSS JOIN clock
    WHERE coalesce(asked.run_at, clock.now + coalesce(asked.delay, interval '0')) <= clock.now AND NOT EXISTS (
        SELECT FROM mainspring.limits
        WHERE limits.queue = asked.queue OR asked.queue = ANY (limits.queues) OR asked.task = ANY (limits.tasks)
    )
),
released AS (
    INSERT INTO mainspring.outbox (queue, ids, tickets) SELECT lent.queue, ARRAY[lent.id], ARRAY[2] FROM lent
    RETURNING id, ids
),
-- A lone submit wakes the scheduler with its own commit, and names its queue, or what the lender is to publish; many
-- share one wake-up afterwards.
woken AS MATERIALIZED (
    SELECT pg_notify(
        coalesce(lent.channel, $18::text),
        CASE WHEN lent.id IS NULL THEN asked.queue ELSE concat_ws(' ', released.id, lent.id, 2, lent.queue) END
    )
    FROM asked LEFT JOIN lent ON lent.id = asked.id LEFT JOIN released ON released.ids[1] = lent.id
    WHERE $18::text IS NOT NULL
)
INSERT INTO mainspring.live_jobs (
    id, queue, task, state, priority, due_at, expires_at, max_attempts, timeout_seconds, idempotency_key, schedule,
    fence, released_at
)
SELECT
    asked.id, asked.queue, asked.task, CASE WHEN judged.is_released THEN 'enqueued' ELSE 'scheduled' END,
    coalesce(asked.priority, asked.default_priority, 5),
    greatest(coalesce(asked.run_at, clock.now + coalesce(asked.delay, interval '0')), clock.now),
    coalesce(
        asked.expires_at, coalesce(asked.run_at, clock.now + coalesce(asked.delay, interval '0')) + asked.default_expiry
    ), (asked.retry ->> 'max_attempts')::integer, asked.timeout_seconds, asked.idempotency_key,
    asked.schedule, CASE WHEN judged.is_released THEN 2 ELSE 1 END, CASE WHEN judged.is_released THEN clock.now END
FROM asked CROSS JOIN clock CROSS JOIN (SELECT count(*) FROM room) AS checked LEFT JOIN lent ON lent.id = asked.id
CROSS JOIN LATERAL (SELECT lent.id IS NOT NULL OR asked.is_released IS TRUE AS is_released) AS judged
RETURNING id, queue, priority, due_at, max_attempts, timeout_seconds, (SELECT now FROM clock) AS created_at,
    state = 'enqueued' AS is_released, (SELECT count(*) FROM woken) AS wake_ups

-- name: reserve_keys
-- Ordered by the caller, so that two batches wait for each other's keys in one order.
INSERT INTO mainspring.idempotency_keys (key, job_id, request_hash)
SELECT asked.key, asked.job_id, asked.request_hash
FROM unnest($1::text[], $2::uuid[], $3::bytea[]) AS asked (key, job_id, request_hash)
ON CONFLICT (key) DO NOTHING
RETURNING key

-- name: read_keys
-- A statement of its own: in the one that inserts, a concurrent repeat would find nothing.
SELECT key, job_id, request_hash, answer FROM mainspring.idempotency_keys WHERE key = ANY ($1::text[])

-- name: store_answers
UPDATE mainspring.idempotency_keys SET answer = asked.answer, job_id = asked.job_id
FROM unnest($1::text[], $2::text[], $3::uuid[]) AS asked (key, answer, job_id)
WHERE idempotency_keys.key = asked.key

-- name: get
SELECT * FROM mainspring.jobs WHERE id = $1

-- name: state_of
SELECT state, fence FROM mainspring.live_jobs WHERE id = $1
UNION ALL
SELECT state, fence FROM mainspring.finished_jobs WHERE id = $1
LIMIT 1

-- name: waiting_among
SELECT id FROM mainspring.live_jobs
WHERE id = ANY ($1::uuid[]) AND state IN ('scheduled', 'blocked', 'enqueued', 'admitted', 'retrying')

-- name: lock_free
-- Those of the jobs that nobody else works on now.
SELECT id FROM mainspring.live_jobs WHERE id = ANY ($1::uuid[]) FOR UPDATE SKIP LOCKED

-- name: cancel_waiting
WITH locked AS MATERIALIZED (
    SELECT job.*
    FROM (SELECT a.id FROM unnest($1::uuid[]) AS a (id) ORDER BY a.id) AS asked
    CROSS JOIN LATERAL (
        SELECT * FROM mainspring.live_jobs
        WHERE live_jobs.id = asked.id
            AND live_jobs.state IN ('scheduled', 'blocked', 'enqueued', 'admitted', 'retrying')
        FOR UPDATE
    ) AS job
),
gone AS (DELETE FROM mainspring.live_jobs WHERE id = ANY (ARRAY(SELECT locked.id FROM locked))),
noted AS (
    INSERT INTO mainspring.events (job_id, event, fence, author, details)
    SELECT locked.id, 'cancel', locked.fence + 1, $2, $3::jsonb FROM locked
)
INSERT INTO mainspring.finished_jobs (
    id, queue, task, state, priority, due_at, expires_at, fence, attempt, attempts_used, max_attempts,
    timeout_seconds, idempotency_key, schedule, backfill, started_at, finished_at
)
SELECT
    id, queue, task, 'cancelled', priority, due_at, expires_at, fence + 1, attempt, attempts_used, max_attempts,
    timeout_seconds, idempotency_key, schedule, backfill, started_at, clock_timestamp()
FROM locked
RETURNING id

-- name: request_cancel
-- The slot stays held; the worker hears of it with its next beat, which the notification has it begin now.
WITH locked AS MATERIALIZED (
    SELECT job.id
    FROM (SELECT a.id FROM unnest($1::uuid[]) AS a (id) ORDER BY a.id) AS asked
    CROSS JOIN LATERAL (
        SELECT id FROM mainspring.live_jobs
        WHERE live_jobs.id = asked.id AND live_jobs.state = 'running' AND NOT live_jobs.cancel_requested
        FOR UPDATE
    ) AS job
),
asked AS (
    UPDATE mainspring.live_jobs SET cancel_requested = true
    WHERE id = ANY (ARRAY(SELECT locked.id FROM locked))
    RETURNING id, fence, worker
),
noted AS (
    INSERT INTO mainspring.events (job_id, event, fence, author, details)
    SELECT id, 'cancel', fence, $2, $3::jsonb FROM asked
)
SELECT asked.id, woken.woken
FROM asked LEFT JOIN (
    SELECT one.worker, pg_notify($4::text, one.worker::text)::text AS woken
    FROM (SELECT DISTINCT worker FROM asked) AS one
) AS woken ON woken.worker = asked.worker

-- name: redrive_dead
WITH redriven AS (
    UPDATE mainspring.live_jobs
    SET state = 'scheduled', reason = NULL, fence = fence + 1, attempts_used = 0, hand_backs = 0,
        due_at = clock_timestamp(), finished_at = NULL, expires_at = NULL
    WHERE id = ANY ($1::uuid[]) AND state = 'dead'
    RETURNING id, fence
),
decided AS (DELETE FROM mainspring.dead_letters WHERE job_id = ANY (ARRAY(SELECT id FROM redriven))),
noted AS (
    INSERT INTO mainspring.events (job_id, event, fence, author, details)
    SELECT id, 'redrive', fence, $2, $3::jsonb FROM redriven
)
SELECT id FROM redriven

-- name: redrive_cancelled
WITH gone AS (
    DELETE FROM mainspring.finished_jobs WHERE id = $1 AND state = 'cancelled' RETURNING *
),
noted AS (
    INSERT INTO mainspring.events (job_id, event, fence, author) SELECT id, 'redrive', fence + 1, $2 FROM gone
)
INSERT INTO mainspring.live_jobs (
    id, queue, task, state, priority, due_at, fence, attempt, attempts_used, max_attempts, timeout_seconds,
    idempotency_key, schedule, backfill
)
SELECT
    id, queue, task, 'scheduled', priority, clock_timestamp(), fence + 1, attempt, 0, max_attempts, timeout_seconds,
    idempotency_key, schedule, backfill
FROM gone
RETURNING id

-- name: edit
-- The message that it may have becomes stale, and a release finds it anew: its due time is never in the past, so that
-- none has passed it by. A job that is kept back until earlier ones of its schedule have ended keeps its due time.
WITH locked AS MATERIALIZED (
    SELECT job.id
    FROM (SELECT a.id FROM unnest($1::uuid[]) AS a (id) ORDER BY a.id) AS asked
    CROSS JOIN LATERAL (
        SELECT id FROM mainspring.live_jobs
        WHERE live_jobs.id = asked.id AND live_jobs.state = ANY ($4::text[])
            AND ($3::timestamptz IS NULL OR live_jobs.reason IS DISTINCT FROM 'overlap')
        FOR UPDATE
    ) AS job
),
edited AS (
    UPDATE mainspring.live_jobs
    SET state = 'scheduled', fence = fence + 1, rechecks = 0, priority = coalesce($2, priority),
        reason = CASE WHEN reason = 'overlap' THEN reason END,
        due_at = CASE WHEN reason = 'overlap' THEN due_at ELSE greatest(coalesce($3, due_at), clock_timestamp()) END,
        line = CASE WHEN $5::jsonb IS NULL THEN line END
    WHERE id = ANY (ARRAY(SELECT locked.id FROM locked))
    RETURNING id, fence
),
details AS (
    UPDATE mainspring.job_details SET payload = coalesce($5::jsonb, payload), run_at = coalesce($3, run_at)
    WHERE id = ANY (ARRAY(SELECT edited.id FROM edited))
),
noted AS (
    INSERT INTO mainspring.events (job_id, event, fence, author, details)
    SELECT id, 'edit', fence, $6, $7::jsonb FROM edited
)
SELECT id FROM edited

-- name: events_of
SELECT at, event, fence, author, details FROM mainspring.events WHERE job_id = $1 ORDER BY at

-- name: counts
SELECT queue, state, count(*) AS jobs, min(due_at) AS oldest_due_at FROM mainspring.live_jobs GROUP BY queue, state
