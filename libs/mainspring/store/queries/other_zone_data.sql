-- name: lock_others
-- A page by name of schedules whose next time was computed by other zone data.
SELECT
    *, CASE WHEN calendars <> '{}' THEN mainspring.excluded_days(calendars) END AS excluded_days,
    (
        SELECT fires.last_nominal_at FROM mainspring.fires
        WHERE fires.schedule = schedules.name AND fires.backfill IS NULL
        ORDER BY fires.nominal_at DESC LIMIT 1
    ) AS last_nominal_at
FROM mainspring.schedules
WHERE name > $1 AND zone_data IS DISTINCT FROM $2 AND broken IS NULL AND next_nominal_at IS NOT NULL
ORDER BY name
LIMIT $3
FOR UPDATE

-- name: lock_due_others
-- Those among them that are due: nobody else fires them.
SELECT
    *, CASE WHEN calendars <> '{}' THEN mainspring.excluded_days(calendars) END AS excluded_days,
    (
        SELECT fires.last_nominal_at FROM mainspring.fires
        WHERE fires.schedule = schedules.name AND fires.backfill IS NULL
        ORDER BY fires.nominal_at DESC LIMIT 1
    ) AS last_nominal_at
FROM mainspring.schedules
WHERE NOT paused AND broken IS NULL AND fires_at <= (SELECT clock_timestamp())
    AND zone_data <> $1 AND timezone <> 'UTC'
ORDER BY fires_at
LIMIT $2
FOR UPDATE SKIP LOCKED
