-- name: displaced
-- Of the due jobs of a limit with each of these keys, those that hold a slot, are released, or wait in the lines or among
-- the ids given: all but the newest. Newest by the time that they were first due: a retry is as old as its job. One that
-- was asked to stop is none of them.
WITH asked_limit AS MATERIALIZED (SELECT * FROM mainspring.limits WHERE limits.id = $1),
scope AS (
    SELECT unnest(queues) AS name FROM asked_limit
    UNION
    SELECT queues.name FROM mainspring.queues WHERE (SELECT tasks <> '{}' FROM asked_limit)
),
found AS (
    SELECT job.id, job.line
    FROM scope
    CROSS JOIN LATERAL (
        SELECT id, queue, task, line FROM mainspring.live_jobs
        WHERE live_jobs.queue = scope.name AND live_jobs.state IN ('enqueued', 'admitted')
        UNION ALL
        SELECT id, queue, task, line FROM mainspring.live_jobs
        WHERE live_jobs.queue = scope.name AND live_jobs.state = 'running' AND NOT live_jobs.cancel_requested
    ) AS job
    JOIN asked_limit ON job.queue = ANY (asked_limit.queues) OR job.task = ANY (asked_limit.tasks)
    UNION
    SELECT waiting.id, waiting.line
    FROM unnest($4::text[], $5::smallint[]) AS asked (line, priority)
    CROSS JOIN LATERAL (
        SELECT id, line FROM mainspring.live_jobs
        WHERE live_jobs.queue = $3 AND live_jobs.state = 'blocked' AND live_jobs.priority = asked.priority
            AND live_jobs.line = asked.line
    ) AS waiting
    UNION
    SELECT due.id, due.line FROM unnest($6::uuid[], $7::text[]) AS due (id, line)
),
ranked AS (
    SELECT
        found.id,
        row_number() OVER (
            PARTITION BY one.key ORDER BY greatest(details.run_at, details.created_at) DESC, found.id DESC
        ) AS place
    FROM found
    CROSS JOIN LATERAL (
        SELECT mainspring.key_of(found.id, found.line, asked_limit.per) AS key FROM asked_limit
    ) AS one
    JOIN mainspring.job_details AS details ON details.id = found.id
    WHERE one.key = ANY ($2::text[])
)
SELECT ranked.id FROM ranked WHERE ranked.place > (SELECT most FROM asked_limit)

-- name: waiting_new
-- Jobs that wait in a line and have not begun.
SELECT id FROM mainspring.live_jobs
WHERE queue = $1 AND state = 'blocked' AND line = $2 AND priority = $3 AND attempts_used = 0 AND hand_backs = 0
LIMIT $4
