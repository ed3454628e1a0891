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

-- name: look
-- In the small index of what runs.
SELECT clock_timestamp() AS now, (
    SELECT true FROM mainspring.live_jobs WHERE state = 'running' AND lease_until < (SELECT clock_timestamp()) LIMIT 1
) IS TRUE AS has_expired

-- name: lock_expired
-- Without an order the picks come from the small index of what runs; an order by id would walk all live jobs.
WITH expired AS MATERIALIZED (
    SELECT
        id, queue, task, fence, claim_id, attempts_used, hand_backs, cancel_requested
    FROM mainspring.live_jobs
    WHERE state = 'running' AND lease_until < (SELECT clock_timestamp())
    LIMIT $1
    FOR UPDATE SKIP LOCKED
)
SELECT expired.*, details.retry
FROM expired
LEFT JOIN LATERAL (
    SELECT retry FROM mainspring.job_details WHERE job_details.id = expired.id LIMIT 1
) AS details ON true
ORDER BY expired.id
