-- name: start
INSERT INTO mainspring.backfills (id, schedule, start_at, end_at, parallel, nominal_times, next_nominal_at)
VALUES ($1, $2, $3, $4, $5, $6, $7)
RETURNING *

-- name: of
SELECT * FROM mainspring.backfills WHERE schedule = $1 ORDER BY created_at DESC LIMIT $2

-- name: runs_after
SELECT true FROM mainspring.backfills WHERE backfills.state = 'running' AND backfills.id > $1 LIMIT 1

-- name: take
-- The schedule's row is locked next, as for any fire.
SELECT * FROM mainspring.backfills
WHERE backfills.state = 'running' AND backfills.id > $1
ORDER BY backfills.id
LIMIT 1
FOR UPDATE SKIP LOCKED

-- name: active
SELECT count(*) FROM mainspring.live_jobs WHERE live_jobs.backfill = $1 AND live_jobs.state <> 'dead'

-- name: cancel_all
UPDATE mainspring.backfills SET state = 'cancelled', finished_at = clock_timestamp()
WHERE schedule = $1 AND state = 'running'

-- name: keep_skipped
-- What is left of a record keeps the instant of its decision.
INSERT INTO mainspring.fires (schedule, nominal_at, last_nominal_at, nominal_times, skipped, recorded_at)
SELECT asked.schedule, asked.nominal_at, asked.last_nominal_at, asked.nominal_times, asked.skipped, $6
FROM unnest($1::text[], $2::timestamptz[], $3::timestamptz[], $4::integer[], $5::text[])
    AS asked (schedule, nominal_at, last_nominal_at, nominal_times, skipped)
ON CONFLICT (schedule, nominal_at) DO NOTHING

-- name: go_on
UPDATE mainspring.backfills
SET next_nominal_at = $2, jobs = jobs + $3, state = $4,
    finished_at = CASE WHEN $4 = 'running' THEN NULL ELSE clock_timestamp() END
WHERE id = $1

-- name: cancel
UPDATE mainspring.backfills SET state = 'cancelled', finished_at = clock_timestamp()
WHERE id = $1 AND schedule = $2 AND state = 'running'
RETURNING id

-- name: mark_jobs
UPDATE mainspring.live_jobs SET backfill = $2 WHERE id = ANY ($1::uuid[])

-- name: skipped_between
-- The records of nominal times that made no job, of which a range may begin before.
SELECT nominal_at, last_nominal_at, nominal_times, skipped, recorded_at FROM mainspring.fires
WHERE schedule = $1 AND job_id IS NULL AND nominal_at <= $3
    AND nominal_at >= coalesce((
        SELECT max(earlier.nominal_at) FROM mainspring.fires AS earlier
        WHERE earlier.schedule = $1 AND earlier.nominal_at <= $2
    ), $2)
    AND last_nominal_at >= $2
ORDER BY nominal_at
FOR UPDATE

-- name: drop_skipped
DELETE FROM mainspring.fires WHERE schedule = $1 AND nominal_at = $2 AND job_id IS NULL
