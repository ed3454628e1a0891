-- name: recorded
SELECT attempts.job_id, attempts.fence
FROM unnest($1::uuid[], $2::bigint[]) AS asked (job_id, fence)
JOIN mainspring.attempts ON attempts.job_id = asked.job_id AND attempts.fence = asked.fence

-- name: attempts_of
SELECT attempt, fence, outcome, worker, started_at, ended_at, error
FROM mainspring.attempts WHERE job_id = $1 ORDER BY fence
