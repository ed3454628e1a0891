-- name: save
INSERT INTO mainspring.schedules (
    name, task, payload, cron, every_seconds, at, timezone, jitter_seconds, misfire, max_catchup,
    catchup_window_seconds, overlap, start_at, end_at, max_runs, paused, note, queue, priority, tags,
    next_nominal_at, fires_at
)
VALUES (
    $1, $2, $3::jsonb, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22
)
ON CONFLICT (name) DO UPDATE SET
    task = excluded.task, payload = excluded.payload, cron = excluded.cron, every_seconds = excluded.every_seconds,
    at = excluded.at, timezone = excluded.timezone, jitter_seconds = excluded.jitter_seconds,
    misfire = excluded.misfire, max_catchup = excluded.max_catchup,
    catchup_window_seconds = excluded.catchup_window_seconds, overlap = excluded.overlap,
    start_at = excluded.start_at, end_at = excluded.end_at, max_runs = excluded.max_runs, paused = excluded.paused,
    note = excluded.note, queue = excluded.queue, priority = excluded.priority, tags = excluded.tags,
    next_nominal_at = excluded.next_nominal_at, fires_at = excluded.fires_at, broken = NULL,
    updated_at = clock_timestamp()

-- name: lock
SELECT * FROM mainspring.schedules WHERE name = $1 FOR UPDATE

-- name: get
SELECT * FROM mainspring.schedules WHERE name = $1

-- name: list
SELECT * FROM mainspring.schedules WHERE name > $1 ORDER BY name LIMIT $2

-- name: delete
DELETE FROM mainspring.schedules WHERE name = $1 RETURNING name

-- name: take_due
-- Under the row's lock, which trigger and edit take too, so that nothing fires one schedule twice.
SELECT * FROM mainspring.schedules
WHERE NOT paused AND broken IS NULL AND fires_at <= (SELECT clock_timestamp())
ORDER BY fires_at
LIMIT $1
FOR UPDATE SKIP LOCKED

-- name: next_fire
SELECT min(fires_at) AS fires_at, (SELECT clock_timestamp()) AS now
FROM mainspring.schedules WHERE NOT paused AND broken IS NULL

-- name: advance
UPDATE mainspring.schedules SET next_nominal_at = $2, fires_at = $3, runs = runs + $4 WHERE name = $1

-- name: set_aside
UPDATE mainspring.schedules SET broken = $2 WHERE name = $1

-- name: set_paused
UPDATE mainspring.schedules
SET paused = $2, note = $3, next_nominal_at = $4, fires_at = $5, updated_at = clock_timestamp()
WHERE name = $1

-- name: active_jobs
SELECT
    count(*) FILTER (WHERE state <> 'running') AS waiting,
    count(*) FILTER (WHERE state = 'running') AS running
FROM mainspring.live_jobs WHERE schedule = $1 AND state <> 'dead'

-- name: cancel_running
WITH asked AS (
    UPDATE mainspring.live_jobs SET cancel_requested = true
    WHERE schedule = $1 AND state = 'running' AND NOT cancel_requested
    RETURNING id, fence, worker
),
noted AS (
    INSERT INTO mainspring.events (job_id, event, fence, author) SELECT id, 'cancel', fence, 'schedule' FROM asked
)
SELECT pg_notify($2::text, worker::text) FROM asked

-- name: record_fires
-- The pair (schedule, nominal time) is unique: whoever comes second records nothing, and inserts no job.
INSERT INTO mainspring.fires (schedule, nominal_at, last_nominal_at, nominal_times, job_id, skipped)
SELECT $1, asked.nominal_at, asked.last_nominal_at, asked.nominal_times, asked.job_id, asked.skipped
FROM unnest($2::timestamptz[], $3::timestamptz[], $4::integer[], $5::uuid[], $6::text[])
    AS asked (nominal_at, last_nominal_at, nominal_times, job_id, skipped)
ON CONFLICT (schedule, nominal_at) DO NOTHING
RETURNING nominal_at

-- name: fires_of
SELECT nominal_at, last_nominal_at, nominal_times, job_id, skipped, recorded_at
FROM mainspring.fires
WHERE schedule = $1 AND ($2::timestamptz IS NULL OR nominal_at < $2)
ORDER BY nominal_at DESC
LIMIT $3

-- name: lock_name
-- Before there is a row to lock.
SELECT pg_advisory_xact_lock(hashtextextended('mainspring.schedules:' || $1, 0))
