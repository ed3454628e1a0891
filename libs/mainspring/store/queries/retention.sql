-- name: get
SELECT succeeded_days, cancelled_days, results_days, history_days, keys_days FROM mainspring.retention

-- name: save
UPDATE mainspring.retention
SET succeeded_days = $1, cancelled_days = $2, results_days = $3, history_days = $4, keys_days = $5

-- name: of_queues
SELECT name, retention FROM mainspring.queues WHERE retention IS NOT NULL

-- name: days
SELECT parent.relname AS table_name, child.relname AS name
FROM pg_inherits
JOIN pg_class AS parent ON parent.oid = pg_inherits.inhparent
JOIN pg_class AS child ON child.oid = pg_inherits.inhrelid
WHERE parent.relnamespace = 'mainspring'::regnamespace AND parent.relkind = 'p'
ORDER BY child.relname

-- name: last_cutoff
-- When the oldest ended of the last so many jobs of a queue.
SELECT finished_at FROM mainspring.finished_jobs WHERE queue = $1 ORDER BY finished_at DESC OFFSET $2 - 1 LIMIT 1

-- name: sweep
-- The next jobs of a day by id: those that are over go with their payloads, results that are over go alone. Small, and
-- nobody else writes to these rows but a redrive of a cancelled one, which is waited for.
WITH looked AS MATERIALIZED (
    SELECT id, queue, state, finished_at, result IS NOT NULL AS has_result FROM mainspring.finished_jobs
    WHERE finished_at >= $1 AND finished_at < $2 AND id > $3
    ORDER BY id
    LIMIT $4
),
cutoffs AS MATERIALIZED (
    SELECT * FROM unnest($5::text[], $6::text[], $7::timestamptz[], $8::timestamptz[]) AS one (queue, state, jobs, results)
),
judged AS MATERIALIZED (
    SELECT
        looked.id, looked.finished_at < coalesce(own.jobs, others.jobs) AS is_over,
        looked.has_result AND looked.finished_at < coalesce(own.results, others.results) AS is_result_over
    FROM looked
    LEFT JOIN cutoffs AS own ON own.queue = looked.queue AND own.state = looked.state
    LEFT JOIN cutoffs AS others ON others.queue = '' AND others.state = looked.state
),
gone AS (
    DELETE FROM mainspring.finished_jobs
    WHERE finished_at >= $1 AND finished_at < $2 AND id = ANY (ARRAY(SELECT judged.id FROM judged WHERE judged.is_over))
    RETURNING id
),
details AS (
    DELETE FROM mainspring.job_details WHERE id = ANY (ARRAY(SELECT gone.id FROM gone))
),
cleared AS (
    UPDATE mainspring.finished_jobs SET result = NULL
    WHERE finished_at >= $1 AND finished_at < $2
        AND id = ANY (ARRAY(SELECT judged.id FROM judged WHERE judged.is_result_over AND NOT judged.is_over))
    RETURNING id
)
SELECT
    (SELECT id FROM looked ORDER BY id DESC LIMIT 1) AS reached, (SELECT count(*) FROM looked) AS looked,
    (SELECT count(*) FROM gone) AS gone, (SELECT count(*) FROM cleared) AS cleared

-- name: survivors
-- Jobs made on a day whose payloads are still wanted, as far as the last number says.
SELECT id FROM mainspring.live_jobs WHERE id >= $1 AND id < $2
UNION ALL
SELECT id FROM mainspring.finished_jobs WHERE id >= $1 AND id < $2
LIMIT $3

-- name: sweep_kept_details
-- Of the payloads that have outlived their partition those whose job is gone now.
WITH looked AS MATERIALIZED (
    SELECT id FROM mainspring.job_details_default WHERE id > $1 ORDER BY id LIMIT $2
),
gone AS (
    DELETE FROM mainspring.job_details_default
    WHERE id = ANY (ARRAY(
        SELECT looked.id FROM looked
        WHERE NOT EXISTS (SELECT FROM mainspring.live_jobs WHERE live_jobs.id = looked.id)
            AND NOT EXISTS (SELECT FROM mainspring.finished_jobs WHERE finished_jobs.id = looked.id)
    ))
)
SELECT (SELECT id FROM looked ORDER BY id DESC LIMIT 1) AS reached, (SELECT count(*) FROM looked) AS looked

-- name: blocks
SELECT
    pg_relation_size('mainspring.completions') / current_setting('block_size')::integer AS completions,
    pg_relation_size('mainspring.idempotency_keys') / current_setting('block_size')::integer AS idempotency_keys,
    pg_relation_size('mainspring.unique_jobs') / current_setting('block_size')::integer AS unique_jobs

-- name: forget_completions
-- By place in the table, so that no index on the time has to be kept for every job that ends.
DELETE FROM mainspring.completions
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM mainspring.completions
    WHERE ctid >= format('(%s,0)', $1::bigint)::tid AND ctid < format('(%s,0)', $2::bigint)::tid AND completed_at < $3
))

-- name: forget_idempotency_keys
-- A key stays while its job has not ended.
DELETE FROM mainspring.idempotency_keys
WHERE ctid = ANY (ARRAY(
    SELECT keys.ctid FROM mainspring.idempotency_keys AS keys
    WHERE keys.ctid >= format('(%s,0)', $1::bigint)::tid AND keys.ctid < format('(%s,0)', $2::bigint)::tid
        AND keys.created_at < $3 AND NOT EXISTS (SELECT FROM mainspring.live_jobs WHERE live_jobs.id = keys.job_id)
))

-- name: forget_unique_jobs
DELETE FROM mainspring.unique_jobs
WHERE ctid = ANY (ARRAY(
    SELECT places.ctid FROM mainspring.unique_jobs AS places
    WHERE places.ctid >= format('(%s,0)', $1::bigint)::tid AND places.ctid < format('(%s,0)', $2::bigint)::tid
        AND places.made_at < $3 AND NOT EXISTS (SELECT FROM mainspring.live_jobs WHERE live_jobs.id = places.job_id)
))
