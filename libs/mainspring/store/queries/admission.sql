-- name: lock_candidates
-- The references whose ticket is current, in the order of the message's ids; the others are stale. Some may have been
-- admitted by their release.
SELECT job.id, job.fence, job.task, job.state, job.line, job.attempts_used > 0 OR job.hand_backs > 0 AS has_begun
FROM (SELECT a.id, a.ticket FROM unnest($1::uuid[], $2::bigint[]) AS a (id, ticket) ORDER BY a.id) AS asked
CROSS JOIN LATERAL (
    SELECT id, fence, task, state, line, attempts_used, hand_backs FROM mainspring.live_jobs
    WHERE live_jobs.id = asked.id AND live_jobs.fence = asked.ticket
        AND live_jobs.state IN ('enqueued', 'admitted', 'retrying')
    FOR UPDATE
) AS job

-- name: draw_lines
-- From the payloads as they are, by the limits that are there now.
SELECT
    details.id, asked.task,
    mainspring.draw_line(
        asked.task, details.payload, marked.fair_by, marked.is_task_limited, marked.paths,
        marked.is_ordered AND asked.has_begun
    ) AS line
FROM unnest($2::uuid[], $3::text[], $4::boolean[]) AS asked (id, task, has_begun)
JOIN (
    SELECT kind.task, marks.*
    FROM (SELECT DISTINCT task FROM unnest($3::text[]) AS one (task)) AS kind
    CROSS JOIN LATERAL mainspring.line_marks($1, kind.task) AS marks
) AS marked ON marked.task = asked.task
CROSS JOIN LATERAL (
    SELECT id, payload FROM mainspring.job_details WHERE job_details.id = asked.id LIMIT 1
) AS details

-- name: keep_lines
UPDATE mainspring.live_jobs SET line = ($2::text[])[array_position($1::uuid[], id)] WHERE id = ANY ($1::uuid[])

-- name: admit
UPDATE mainspring.live_jobs SET state = 'admitted', fence = fence + 1, released_at = clock_timestamp(), rechecks = 0
WHERE id = ANY ($1::uuid[])
RETURNING id, fence

-- name: block
WITH blocked AS (
    UPDATE mainspring.live_jobs SET state = 'blocked', reason = 'concurrency', fence = fence + 1
    WHERE id = ANY ($1::uuid[])
    RETURNING id, fence
)
INSERT INTO mainspring.events (job_id, event, fence, details)
SELECT id, 'block', fence, '{"reason": "concurrency"}' FROM blocked

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
