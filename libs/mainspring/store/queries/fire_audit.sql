-- name: page
-- Schedules by name that have a fire to come, with what the auditor asks of each. Those that other zone data decided are left out.
SELECT
    schedules.*,
    CASE WHEN schedules.calendars <> '{}' THEN mainspring.excluded_days(schedules.calendars) END AS excluded_days,
    (
        SELECT max(finished_jobs.finished_at) FROM mainspring.finished_jobs
        WHERE finished_jobs.schedule = schedules.name AND finished_jobs.backfill IS NULL AND finished_jobs.state = 'succeeded'
    ) AS last_success
FROM mainspring.schedules
WHERE name > $1 AND NOT paused AND broken IS NULL AND next_nominal_at IS NOT NULL AND (zone_data = $2 OR timezone = 'UTC')
ORDER BY name
LIMIT $3

-- name: recorded
-- What became of nominal times from an instant on, a range that begins before included.
SELECT nominal_at, last_nominal_at FROM mainspring.fires
WHERE schedule = $1 AND nominal_at < $3 AND last_nominal_at >= $2
    AND nominal_at >= coalesce((
        SELECT max(earlier.nominal_at) FROM mainspring.fires AS earlier
        WHERE earlier.schedule = $1 AND earlier.nominal_at <= $2
    ), $2)
ORDER BY nominal_at

-- name: counts
-- How many nominal times are recorded within each window; NULL where a record reaches beyond it, or into it.
SELECT asked.schedule, CASE WHEN bool_and(found.is_inside) THEN sum(found.nominal_times)::integer END AS recorded
FROM unnest($1::text[], $2::timestamptz[], $3::timestamptz[]) AS asked (schedule, start_at, end_at)
CROSS JOIN LATERAL (
    SELECT 0 AS nominal_times, true AS is_inside
    UNION ALL
    SELECT fires.nominal_times, fires.last_nominal_at < asked.end_at FROM mainspring.fires
    WHERE fires.schedule = asked.schedule AND fires.nominal_at >= asked.start_at AND fires.nominal_at < asked.end_at
    UNION ALL
    SELECT 0, before.last_nominal_at < asked.start_at FROM (
        SELECT fires.last_nominal_at FROM mainspring.fires
        WHERE fires.schedule = asked.schedule AND fires.nominal_at < asked.start_at
        ORDER BY fires.nominal_at DESC LIMIT 1
    ) AS before
) AS found
GROUP BY asked.schedule
