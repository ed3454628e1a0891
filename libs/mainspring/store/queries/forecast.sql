-- name: of_schedules
-- The last runs of each, of a week and the day of the week before: each finds them by an index, however many there are.
-- The upper bound spares the partitions that are made ahead.
SELECT asked.schedule, avg(extract(epoch FROM run.finished_at - run.started_at))::double precision AS mean_seconds
FROM unnest($1::text[]) AS asked (schedule)
CROSS JOIN LATERAL (
    SELECT finished_jobs.started_at, finished_jobs.finished_at FROM mainspring.finished_jobs
    WHERE finished_jobs.schedule = asked.schedule AND finished_jobs.backfill IS NULL
        AND finished_jobs.state = 'succeeded'
        AND finished_jobs.finished_at > (SELECT clock_timestamp()) - interval '8 days'
        AND finished_jobs.finished_at < (SELECT clock_timestamp()) + interval '1 hour'
    ORDER BY finished_jobs.finished_at DESC
    LIMIT 20
) AS run
WHERE run.started_at IS NOT NULL
GROUP BY asked.schedule

-- name: of_tasks
-- From the jobs made last, whoever made them: ids begin with the time of their making.
SELECT run.task, avg(extract(epoch FROM run.finished_at - run.started_at))::double precision AS mean_seconds
FROM (
    SELECT task, started_at, finished_at, state FROM mainspring.finished_jobs
    WHERE finished_at > (SELECT clock_timestamp()) - interval '8 days'
        AND finished_at < (SELECT clock_timestamp()) + interval '1 hour'
    ORDER BY id DESC
    LIMIT 10000
) AS run
WHERE run.state = 'succeeded' AND run.started_at IS NOT NULL
GROUP BY run.task
