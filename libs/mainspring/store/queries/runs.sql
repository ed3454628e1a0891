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
        WHERE schedule = $1 AND id <> $2 AND (NOT $3 OR state = 'succeeded')
        ORDER BY finished_at DESC LIMIT 1
    )
    UNION ALL
    (
        SELECT id, state, finished_at, NULL::jsonb FROM mainspring.live_jobs
        WHERE schedule = $1 AND id <> $2 AND state = 'dead' AND NOT $3
        ORDER BY finished_at DESC LIMIT 1
    )
) AS last
LEFT JOIN mainspring.job_details AS details ON details.id = last.id
ORDER BY last.finished_at DESC
LIMIT 1
