-- name: lock
SELECT *, clock_timestamp() AS locked_at FROM mainspring.lock_queue($1, $2, NULL, NULL, 0)

-- name: due
-- Jobs that have become due and wait in no line yet, with the line that each belongs to. The scan begins where an earlier
-- one ended: what waits in a line is behind. The first of them in the order of the release, or with $4 the last.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
due AS MATERIALIZED (
    SELECT picked.*
    FROM clock
    CROSS JOIN LATERAL mainspring.release_order($5::interval, clock.now) AS level
    CROSS JOIN LATERAL (
        SELECT
            live_jobs.id, live_jobs.task, live_jobs.priority, live_jobs.due_at,
            live_jobs.attempts_used > 0 OR live_jobs.hand_backs > 0 AS has_begun
        FROM mainspring.live_jobs
        WHERE live_jobs.queue = $1 AND live_jobs.state IN ('scheduled', 'blocked')
            AND (live_jobs.state = 'scheduled' OR live_jobs.line IS NULL)
            AND live_jobs.priority = level.priority
            AND live_jobs.due_at >= ($3::timestamptz[])[level.priority + 1]
            AND live_jobs.due_at > level.due_after AND live_jobs.due_at <= level.due_until
        ORDER BY live_jobs.due_at, live_jobs.id
        LIMIT CASE WHEN $4 THEN 0 ELSE $2 END
        FOR UPDATE SKIP LOCKED
    ) AS picked
    UNION ALL
    SELECT newest.*
    FROM generate_series(0, 9) AS level (priority)
    CROSS JOIN LATERAL (
        SELECT
            live_jobs.id, live_jobs.task, live_jobs.priority, live_jobs.due_at,
            live_jobs.attempts_used > 0 OR live_jobs.hand_backs > 0 AS has_begun
        FROM mainspring.live_jobs
        WHERE live_jobs.queue = $1 AND live_jobs.state IN ('scheduled', 'blocked')
            AND (live_jobs.state = 'scheduled' OR live_jobs.line IS NULL)
            AND live_jobs.priority = level.priority
            AND live_jobs.due_at >= ($3::timestamptz[])[level.priority + 1]
            AND live_jobs.due_at <= (SELECT clock.now FROM clock)
        ORDER BY live_jobs.due_at DESC, live_jobs.id DESC
        LIMIT CASE WHEN $4 THEN $2 ELSE 0 END
        FOR UPDATE SKIP LOCKED
    ) AS newest
    LIMIT $2
),
marked AS MATERIALIZED (
    SELECT kind.task, marks.*
    FROM (SELECT DISTINCT task FROM due) AS kind CROSS JOIN LATERAL mainspring.line_marks($1, kind.task) AS marks
)
SELECT
    due.*,
    mainspring.draw_line(
        due.task, details.payload, marked.fair_by, marked.is_task_limited, marked.paths,
        marked.is_ordered AND due.has_begun
    ) AS line
FROM due
JOIN marked ON marked.task = due.task
CROSS JOIN LATERAL (SELECT payload FROM mainspring.job_details WHERE job_details.id = due.id LIMIT 1) AS details
ORDER BY due.priority, due.due_at, due.id

-- name: join
UPDATE mainspring.live_jobs
SET state = 'blocked', reason = NULL, fence = fence + 1, line = ($2::text[])[array_position($1::uuid[], id)]
WHERE id = ANY ($1::uuid[])

-- name: heads
-- Lines in the order of their turns.
SELECT line, task, priority, due_at FROM mainspring.lines_of($1, $2::text[], $3)

-- name: waiting
-- How many jobs wait in each of these lines, counted as far as the last number says.
SELECT (
    SELECT count(*) FROM (
        SELECT FROM mainspring.live_jobs
        WHERE live_jobs.queue = $1 AND live_jobs.state = 'blocked' AND live_jobs.priority = asked.priority
            AND live_jobs.line = asked.line
        LIMIT asked.most
    ) AS found
) AS jobs
FROM unnest($2::text[], $3::smallint[], $4::integer[]) WITH ORDINALITY AS asked (line, priority, most, place)
ORDER BY asked.place

-- name: release
-- So many jobs of each line, in the order of due time: those that wait in it, then others that have just become due.
-- With $11 they are admitted by it.
WITH shares AS MATERIALIZED (
    SELECT * FROM unnest($2::text[], $3::smallint[], $4::integer[], $10::integer[])
        WITH ORDINALITY AS share (line, priority, jobs, rank, place)
),
picked AS MATERIALIZED (
    SELECT
        job.id, share.rank, share.place,
        row_number() OVER (PARTITION BY share.place ORDER BY job.due_at, job.id) AS round
    FROM shares AS share
    CROSS JOIN LATERAL (
        SELECT live_jobs.id, live_jobs.due_at FROM mainspring.live_jobs
        WHERE live_jobs.queue = $1 AND live_jobs.state = 'blocked' AND live_jobs.priority = share.priority
            AND live_jobs.line = share.line
        ORDER BY live_jobs.due_at, live_jobs.id
        LIMIT share.jobs
        FOR UPDATE SKIP LOCKED
    ) AS job
    UNION ALL
    SELECT fresh.id, share.rank, fresh.place, fresh.round
    FROM unnest($6::uuid[], $8::bigint[], $9::bigint[]) AS fresh (id, place, round)
    JOIN shares AS share ON share.place = fresh.place
),
released AS (
    UPDATE mainspring.live_jobs
    SET state = CASE WHEN $11 THEN 'admitted' ELSE 'enqueued' END, fence = fence + 1, released_at = clock_timestamp(), rechecks = 0, reason = NULL,
        line = coalesce(($7::text[])[array_position($6::uuid[], id)], line)
    WHERE id = ANY (ARRAY(SELECT picked.id FROM picked))
    RETURNING id, fence
),
placed AS MATERIALIZED (
    -- By rank the first of each line, then the second of each: the workers take them in turns too.
    SELECT released.id, released.fence, row_number() OVER (ORDER BY picked.rank, picked.round, picked.place) AS place
    FROM released JOIN picked ON picked.id = released.id
)
INSERT INTO mainspring.outbox (queue, ids, tickets)
SELECT $1, array_agg(placed.id ORDER BY placed.place), array_agg(placed.fence ORDER BY placed.place)
FROM placed
GROUP BY (placed.place - 1) / $5
ORDER BY (placed.place - 1) / $5
RETURNING id, ids, tickets
