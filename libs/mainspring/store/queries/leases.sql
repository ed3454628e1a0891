-- name: extend
-- Skips what is locked: one slow row never costs the neighbours their leases. A row that is there with its
-- fence and could not be locked is busy, being settled; only a row that isn't is gone.
WITH asked AS MATERIALIZED (
    SELECT a.id, a.fence, a.claim_id
    FROM unnest($1::uuid[], $2::bigint[], $3::uuid[]) AS a (id, fence, claim_id) ORDER BY a.id
),
locked AS MATERIALIZED (
    SELECT job.id
    FROM asked
    CROSS JOIN LATERAL (
        SELECT id FROM mainspring.live_jobs
        WHERE live_jobs.id = asked.id AND live_jobs.fence = asked.fence AND live_jobs.claim_id = asked.claim_id
        FOR UPDATE SKIP LOCKED
    ) AS job
),
extended AS (
    UPDATE mainspring.live_jobs SET lease_until = clock_timestamp() + $4::interval
    WHERE id = ANY (ARRAY(SELECT locked.id FROM locked))
    RETURNING id, cancel_requested
)
SELECT
    asked.id,
    CASE
        WHEN extended.cancel_requested THEN 'cancel_requested'
        WHEN extended.id IS NOT NULL THEN 'extended'
        WHEN seen.id IS NOT NULL THEN 'busy'
        ELSE 'gone'
    END AS beat
FROM asked
LEFT JOIN extended ON extended.id = asked.id
LEFT JOIN LATERAL (
    SELECT id FROM mainspring.live_jobs
    WHERE live_jobs.id = asked.id AND live_jobs.fence = asked.fence AND live_jobs.claim_id = asked.claim_id
) AS seen ON true

-- name: lock_expired
SELECT
    live_jobs.id, live_jobs.queue, live_jobs.task, live_jobs.fence, live_jobs.claim_id, live_jobs.attempts_used,
    live_jobs.hand_backs, live_jobs.cancel_requested, job_details.retry
FROM mainspring.live_jobs
LEFT JOIN mainspring.job_details ON job_details.id = live_jobs.id
WHERE live_jobs.state = 'running' AND live_jobs.lease_until < (SELECT clock_timestamp())
ORDER BY live_jobs.id
LIMIT $1
FOR UPDATE OF live_jobs SKIP LOCKED
