-- name: lock_limit
-- Whoever holds the row counts and admits; nobody else can in between.
SELECT most FROM mainspring.limits WHERE queue = $1 AND kind = 'concurrency' FOR UPDATE

-- name: slots_held
-- A slot is held from admission until a transition ends it; an expired lease holds it until it is reclaimed.
-- A statement after the lock's: its snapshot holds what the row's previous owner committed.
SELECT
    (SELECT count(*) FROM mainspring.live_jobs WHERE queue = $1 AND state = 'admitted')
    + (SELECT count(*) FROM mainspring.live_jobs WHERE queue = $1 AND state = 'running') AS held

-- name: lock_candidates
-- The references whose ticket is current, in the order of the message's ids; the others are stale.
SELECT job.id, job.fence
FROM (SELECT a.id, a.ticket FROM unnest($1::uuid[], $2::bigint[]) AS a (id, ticket) ORDER BY a.id) AS asked
CROSS JOIN LATERAL (
    SELECT id, fence FROM mainspring.live_jobs
    WHERE live_jobs.id = asked.id AND live_jobs.fence = asked.ticket AND live_jobs.state IN ('enqueued', 'retrying')
    FOR UPDATE
) AS job

-- name: admit
UPDATE mainspring.live_jobs SET state = 'admitted', fence = fence + 1, released_at = clock_timestamp(), rechecks = 0
WHERE id = ANY ($1::uuid[])
RETURNING id, fence

-- name: block
WITH blocked AS (
    UPDATE mainspring.live_jobs
    SET state = 'blocked', reason = 'concurrency', fence = fence + 1, due_at = clock_timestamp()
    WHERE id = ANY ($1::uuid[])
    RETURNING id, fence
)
INSERT INTO mainspring.events (job_id, event, fence) SELECT id, 'block', fence FROM blocked

-- name: return_paused
-- The jobs of a paused queue wait in Postgres again, with reason and earliest time; those of a queue that has been
-- resumed meanwhile are left as they are.
WITH locked AS MATERIALIZED (
    SELECT job.id
    FROM (SELECT a.id, a.ticket FROM unnest($1::uuid[], $2::bigint[]) AS a (id, ticket) ORDER BY a.id) AS asked
    CROSS JOIN LATERAL (
        SELECT id FROM mainspring.live_jobs
        WHERE live_jobs.id = asked.id AND live_jobs.fence = asked.ticket
            AND live_jobs.state IN ('enqueued', 'admitted', 'retrying')
        FOR UPDATE
    ) AS job
    WHERE EXISTS (SELECT FROM mainspring.queues WHERE queues.name = $3 AND queues.paused)
),
given AS (
    UPDATE mainspring.live_jobs
    SET state = 'scheduled', reason = 'paused', fence = fence + 1, due_at = clock_timestamp() + $4::interval
    WHERE id = ANY (ARRAY(SELECT locked.id FROM locked))
    RETURNING id, fence
),
noted AS (
    INSERT INTO mainspring.events (job_id, event, fence, details)
    SELECT id, 'return', fence, '{"reason": "paused"}' FROM given
)
SELECT EXISTS (SELECT FROM mainspring.queues WHERE queues.name = $3 AND queues.paused) AS is_paused,
    (SELECT count(*) FROM given) AS returned
