-- name: upsert_tasks
INSERT INTO mainspring.tasks (name, queue, timeout_seconds, retry, payload_schema, circuit, requires, version)
SELECT
    asked.name, asked.queue, asked.timeout_seconds, asked.retry, asked.payload_schema, asked.circuit,
    string_to_array(asked.requires, ','), $8
FROM unnest($1::text[], $2::text[], $3::double precision[], $4::jsonb[], $5::jsonb[], $6::text[], $7::text[])
    AS asked (name, queue, timeout_seconds, retry, payload_schema, circuit, requires)
ORDER BY asked.name
ON CONFLICT (name) DO UPDATE SET
    queue = excluded.queue, timeout_seconds = excluded.timeout_seconds, retry = excluded.retry,
    payload_schema = excluded.payload_schema, circuit = excluded.circuit, requires = excluded.requires, version = excluded.version,
    updated_at = clock_timestamp()

-- name: payload_schemas
SELECT name, payload_schema FROM mainspring.tasks

-- name: beat_worker
INSERT INTO mainspring.workers (id, host, pid, version, queues, tasks, labels, slots, free_slots)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (id) DO UPDATE SET
    free_slots = excluded.free_slots, queues = excluded.queues, tasks = excluded.tasks, beat_at = clock_timestamp()

-- name: call_waiting
-- Jobs that wait for a worker that knows their task are due now; some thousands at a time.
UPDATE mainspring.live_jobs SET due_at = clock_timestamp()
WHERE id = ANY (ARRAY(
    SELECT id FROM mainspring.live_jobs
    WHERE state = 'scheduled' AND reason = 'no_worker' AND task = ANY ($1::text[]) AND due_at > clock_timestamp()
    LIMIT $2
    FOR UPDATE SKIP LOCKED
))

-- name: forget_worker
DELETE FROM mainspring.workers WHERE id = $1

-- name: forget_lost_workers
DELETE FROM mainspring.workers WHERE beat_at < (SELECT clock_timestamp()) - $1::interval

-- name: workers
SELECT id, host, pid, version, queues, tasks, labels, slots, free_slots, started_at, beat_at
FROM mainspring.workers
WHERE beat_at > (SELECT clock_timestamp()) - $1::interval
ORDER BY started_at

-- name: slots
SELECT served.queue, sum(workers.slots)::integer AS slots
FROM mainspring.workers CROSS JOIN unnest(workers.queues) AS served (queue)
WHERE workers.beat_at > (SELECT clock_timestamp()) - $1::interval
GROUP BY served.queue

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
SELECT pg_notify($1, $2)

-- name: now
SELECT clock_timestamp()
