-- name: last_run
-- The newest end among the finished jobs and the dead ones of a schedule.
SELECT
    last.id AS job_id, last.state, last.finished_at, details.nominal_at, last.result,
    (
        SELECT attempts.error - 'traceback' FROM mainspring.attempts
        WHERE attempts.job_id = last.id AND attempts.error IS NOT NULL AND last.state <> 'succeeded'
        ORDER BY attempts.fence DESC LIMIT 1
    ) AS error
FROM (
    (
        SELECT id, state, finished_at, result FROM mainspring.finished_jobs
        WHERE schedule = $1 AND backfill IS NULL AND id <> $2 AND (NOT $3 OR state = 'succeeded')
        ORDER BY finished_at DESC LIMIT 1
    )
    UNION ALL
    (
        SELECT id, state, finished_at, NULL::jsonb FROM mainspring.live_jobs
        WHERE schedule = $1 AND backfill IS NULL AND id <> $2 AND state = 'dead' AND NOT $3
        ORDER BY finished_at DESC LIMIT 1
    )
) AS last
LEFT JOIN mainspring.job_details AS details ON details.id = last.id
ORDER BY last.finished_at DESC
LIMIT 1

-- name: hold
-- Until an earlier job of the schedule has ended: no release finds them before.
UPDATE mainspring.live_jobs SET reason = 'overlap', due_at = '9999-12-31 00:00:00+00' WHERE id = ANY ($1::uuid[])

-- name: with_held
SELECT DISTINCT schedule FROM mainspring.live_jobs
WHERE state = 'scheduled' AND reason = 'overlap' AND schedule > $1
ORDER BY schedule
LIMIT $2

-- name: let_go
-- Under the schedule's lock: the first of those that are held, once nothing else of the schedule waits or runs.
UPDATE mainspring.live_jobs SET reason = NULL, due_at = clock_timestamp()
WHERE id = (
    SELECT held.id FROM mainspring.live_jobs AS held
    JOIN mainspring.job_details AS details ON details.id = held.id
    WHERE held.schedule = $1 AND held.state = 'scheduled' AND held.reason = 'overlap'
    ORDER BY details.nominal_at, held.id LIMIT 1
) AND NOT EXISTS (
    SELECT FROM mainspring.live_jobs AS other
    WHERE other.schedule = $1 AND other.state <> 'dead' AND other.backfill IS NULL
        AND (other.state <> 'scheduled' OR other.reason IS DISTINCT FROM 'overlap')
)
RETURNING id
