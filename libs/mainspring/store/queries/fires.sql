-- name: take_due
-- Under the row's lock, which trigger and edit take too, so that nothing fires one schedule twice. Whoever computes by
-- other zone data than what the next time was computed by leaves it alone; in UTC there is none.
SELECT *, CASE WHEN calendars <> '{}' THEN mainspring.excluded_days(calendars) END AS excluded_days
FROM mainspring.schedules
WHERE NOT paused AND broken IS NULL AND fires_at <= (SELECT clock_timestamp())
    AND (zone_data = $2 OR timezone = 'UTC' OR zone_data IS NULL)
ORDER BY fires_at
LIMIT $1
FOR UPDATE SKIP LOCKED

-- name: next_fire
SELECT min(fires_at) AS fires_at, (SELECT clock_timestamp()) AS now
FROM mainspring.schedules WHERE NOT paused AND broken IS NULL

-- name: advance
UPDATE mainspring.schedules
SET next_nominal_at = step.next_nominal_at, fires_at = step.fires_at, runs = schedules.runs + step.runs,
    last_local = step.last_local, zone_data = $6
FROM unnest($1::text[], $2::timestamptz[], $3::timestamptz[], $4::integer[], $5::timestamp[])
    AS step (name, next_nominal_at, fires_at, runs, last_local)
WHERE schedules.name = step.name AND schedules.name = ANY ($1::text[])

-- name: pause_failing
UPDATE mainspring.schedules SET paused = true, pause_note = step.note, updated_at = clock_timestamp()
FROM unnest($1::text[], $2::text[]) AS step (name, note)
WHERE schedules.name = step.name AND schedules.name = ANY ($1::text[])

-- name: active_jobs
-- The jobs of a backfill are no runs of the schedule.
SELECT asked.schedule, active.waiting, active.running
FROM unnest($1::text[]) AS asked (schedule)
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE state <> 'running') AS waiting, count(*) FILTER (WHERE state = 'running') AS running
    FROM mainspring.live_jobs
    WHERE live_jobs.schedule = asked.schedule AND live_jobs.state <> 'dead' AND live_jobs.backfill IS NULL
) AS active
WHERE active.waiting + active.running > 0

-- name: failing
-- Those whose last jobs, as many as asked, all died: no success since, and none from before it was resumed or changed.
SELECT asked.schedule
FROM unnest($1::text[], $2::integer[]) AS asked (schedule, failures)
JOIN mainspring.schedules ON schedules.name = asked.schedule
CROSS JOIN LATERAL (
    SELECT max(finished_at) AS at FROM mainspring.finished_jobs
    WHERE finished_jobs.schedule = asked.schedule AND finished_jobs.backfill IS NULL
        AND finished_jobs.state = 'succeeded'
) AS last_success
CROSS JOIN LATERAL (
    SELECT count(*) AS dead FROM (
        SELECT FROM mainspring.live_jobs
        WHERE live_jobs.schedule = asked.schedule AND live_jobs.state = 'dead' AND live_jobs.backfill IS NULL
            AND live_jobs.finished_at > greatest(schedules.active_since, last_success.at)
        LIMIT asked.failures
    ) AS recent
) AS found
WHERE found.dead >= asked.failures

-- name: cancel_running
WITH locked AS MATERIALIZED (
    SELECT id FROM mainspring.live_jobs
    WHERE schedule = ANY ($1::text[]) AND state = 'running' AND NOT cancel_requested AND backfill IS NULL
    ORDER BY id FOR UPDATE
),
asked AS (
    UPDATE mainspring.live_jobs SET cancel_requested = true
    WHERE id IN (SELECT locked.id FROM locked)
    RETURNING id, fence, worker
),
noted AS (
    INSERT INTO mainspring.events (job_id, event, fence, author) SELECT id, 'cancel', fence, 'schedule' FROM asked
)
SELECT pg_notify($2::text, worker::text) FROM asked

-- name: record
-- The pair (schedule, nominal time) is unique: whoever comes second records nothing, and inserts no job.
INSERT INTO mainspring.fires (
    schedule, nominal_at, last_nominal_at, nominal_times, job_id, skipped, planned_at, backfill
)
SELECT
    asked.schedule, asked.nominal_at, asked.last_nominal_at, asked.nominal_times, asked.job_id, asked.skipped,
    asked.planned_at, $8
FROM unnest(
    $1::text[], $2::timestamptz[], $3::timestamptz[], $4::integer[], $5::uuid[], $6::text[], $7::timestamptz[]
) AS asked (schedule, nominal_at, last_nominal_at, nominal_times, job_id, skipped, planned_at)
ON CONFLICT (schedule, nominal_at) DO NOTHING
RETURNING schedule, nominal_at

-- name: of
SELECT
    nominal_at, last_nominal_at, nominal_times, job_id, skipped, recorded_at, planned_at, backfill,
    extract(epoch FROM recorded_at - planned_at)::double precision AS lateness_seconds
FROM mainspring.fires
WHERE schedule = $1 AND ($2::timestamptz IS NULL OR nominal_at < $2)
ORDER BY nominal_at DESC
LIMIT $3

-- name: last_nominal_at
SELECT last_nominal_at FROM mainspring.fires WHERE schedule = $1 ORDER BY nominal_at DESC LIMIT 1

-- name: recorded_between
-- Of many runs at once; they are told apart by their place.
SELECT asked.place, found.nominal_at, found.last_nominal_at
FROM unnest($1::text[], $2::timestamptz[], $3::timestamptz[]) WITH ORDINALITY AS asked (schedule, first, last, place)
CROSS JOIN LATERAL (
    SELECT fires.nominal_at, fires.last_nominal_at FROM mainspring.fires
    WHERE fires.schedule = asked.schedule AND fires.nominal_at BETWEEN asked.first AND asked.last
) AS found
ORDER BY asked.place, found.nominal_at
