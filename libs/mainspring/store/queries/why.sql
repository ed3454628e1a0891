-- name: job
SELECT
    live_jobs.state, live_jobs.reason, live_jobs.queue, live_jobs.task, live_jobs.priority, live_jobs.due_at,
    live_jobs.attempts_used, live_jobs.max_attempts, live_jobs.schedule, live_jobs.started_at, live_jobs.worker,
    live_jobs.lease_until, live_jobs.released_at, coalesce(queues.paused, false) AS paused, queues.paused_at,
    queues.paused_by, queues.note, nullif(queues.backs_off_until, '-infinity') AS backs_off_until,
    clock_timestamp() AS now, coalesce(tasks.requires, '{}') AS requires,
    mainspring.line_of(live_jobs.id, live_jobs.queue, live_jobs.task) AS line
FROM mainspring.live_jobs
LEFT JOIN mainspring.queues ON queues.name = live_jobs.queue
LEFT JOIN mainspring.tasks ON tasks.name = live_jobs.task
WHERE live_jobs.id = $1

-- name: ahead
-- Due jobs of the queue that the release takes before it, counted as far as the last number says.
SELECT count(*) FROM (
    SELECT FROM mainspring.live_jobs
    WHERE live_jobs.queue = $1 AND live_jobs.state IN ('scheduled', 'blocked')
        AND (live_jobs.priority, live_jobs.due_at, live_jobs.id) < ($2::smallint, $3::timestamptz, $4::uuid)
        AND live_jobs.due_at <= (SELECT clock_timestamp())
    LIMIT $5
) AS found

-- name: flow
-- How many jobs of a queue leave the broker in a second: of those that are there, the average is halfway through.
SELECT count(*) / nullif(2 * extract(epoch FROM avg(clock_timestamp() - released_at)), 0)::double precision AS per_second
FROM mainspring.live_jobs WHERE queue = $1 AND state IN ('enqueued', 'admitted')

-- name: serving
SELECT
    count(*) AS workers, count(*) FILTER (WHERE $2 = ANY (tasks)) AS knowing, coalesce(sum(slots), 0) AS slots,
    coalesce(sum(free_slots), 0) AS free_slots
FROM mainspring.workers
WHERE $1 = ANY (queues) AND beat_at > (SELECT clock_timestamp()) - $3::interval

-- name: holders
-- Some of the jobs that hold a slot of a limit for a key, the oldest first.
SELECT job.id
FROM mainspring.limits
JOIN mainspring.live_jobs AS job
    ON job.queue = limits.queue OR job.queue = ANY (limits.queues) OR job.task = ANY (limits.tasks)
WHERE limits.id = $1
    AND (
        job.state IN ('admitted', 'running')
        OR limits.ordered AND job.state IN ('scheduled', 'blocked', 'retrying')
        AND (job.attempts_used > 0 OR job.hand_backs > 0)
    )
    AND mainspring.key_of(job.id, job.line, limits.per) = $2
ORDER BY job.id
LIMIT $3
