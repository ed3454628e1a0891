-- name: reserve
-- Ordered by the caller, so that two submits wait for each other's keys in one order.
INSERT INTO mainspring.unique_jobs (key, job_id)
SELECT asked.key, asked.job_id FROM unnest($1::bytea[], $2::uuid[]) AS asked (key, job_id)
ON CONFLICT (key) DO NOTHING
RETURNING key

-- name: lock
-- Who has these places; nobody else takes one of them until the transaction's end.
SELECT
    held.key, held.job_id, clock_timestamp() - held.made_at AS age,
    coalesce(
        (SELECT state FROM mainspring.live_jobs WHERE live_jobs.id = held.job_id),
        (SELECT state FROM mainspring.finished_jobs WHERE finished_jobs.id = held.job_id LIMIT 1)
    ) AS state
FROM (SELECT * FROM mainspring.unique_jobs WHERE key = ANY ($1::bytea[]) ORDER BY key FOR UPDATE) AS held

-- name: take_over
UPDATE mainspring.unique_jobs SET job_id = $2, made_at = clock_timestamp() WHERE key = $1
