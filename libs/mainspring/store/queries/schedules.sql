-- name: save
INSERT INTO mainspring.schedules (
    name, task, payload, cron, every_seconds, at, timezone, jitter_seconds, misfire, max_catchup,
    catchup_window_seconds, overlap, start_at, end_at, max_runs, paused, note, queue, priority, tags,
    calendars, pause_after, next_nominal_at, fires_at, zone_data, last_local, active_since, created_at
)
VALUES (
    $1, $2, $3::jsonb, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23,
    $24, $25, $26, $27, $28
)
ON CONFLICT (name) DO UPDATE SET
    task = excluded.task, payload = excluded.payload, cron = excluded.cron, every_seconds = excluded.every_seconds,
    at = excluded.at, timezone = excluded.timezone, jitter_seconds = excluded.jitter_seconds,
    misfire = excluded.misfire, max_catchup = excluded.max_catchup,
    catchup_window_seconds = excluded.catchup_window_seconds, overlap = excluded.overlap,
    start_at = excluded.start_at, end_at = excluded.end_at, max_runs = excluded.max_runs, paused = excluded.paused,
    note = excluded.note, queue = excluded.queue, priority = excluded.priority, tags = excluded.tags,
    calendars = excluded.calendars, pause_after = excluded.pause_after, next_nominal_at = excluded.next_nominal_at,
    fires_at = excluded.fires_at, zone_data = excluded.zone_data, last_local = excluded.last_local,
    active_since = excluded.active_since, broken = NULL, updated_at = clock_timestamp(),
    pause_note = CASE WHEN excluded.paused THEN schedules.pause_note END

-- name: lock_name
-- Before there is a row to lock.
SELECT pg_advisory_xact_lock(hashtextextended('mainspring.schedules:' || $1, 0))

-- name: lock
SELECT FROM mainspring.schedules WHERE name = $1 FOR UPDATE

-- name: lock_with_calendar
SELECT FROM mainspring.schedules WHERE calendars <> '{}' AND $1 = ANY (calendars) ORDER BY name FOR UPDATE

-- name: with_calendar
SELECT *, CASE WHEN calendars <> '{}' THEN mainspring.excluded_days(calendars) END AS excluded_days
FROM mainspring.schedules
WHERE calendars <> '{}' AND $1 = ANY (calendars)
ORDER BY name

-- name: names_with_calendar
SELECT name FROM mainspring.schedules WHERE calendars <> '{}' AND $1 = ANY (calendars) ORDER BY name LIMIT 5

-- name: get
SELECT *, CASE WHEN calendars <> '{}' THEN mainspring.excluded_days(calendars) END AS excluded_days
FROM mainspring.schedules WHERE name = $1

-- name: lock_all
SELECT FROM mainspring.schedules WHERE name = ANY ($1::text[]) ORDER BY name FOR UPDATE

-- name: get_all
SELECT *, CASE WHEN calendars <> '{}' THEN mainspring.excluded_days(calendars) END AS excluded_days
FROM mainspring.schedules WHERE name = ANY ($1::text[])
ORDER BY name

-- name: list
-- A page by name of those that fit the filter; NULL: any.
SELECT *, CASE WHEN calendars <> '{}' THEN mainspring.excluded_days(calendars) END AS excluded_days
FROM mainspring.schedules
WHERE name > $1
    AND ($3::text IS NULL OR starts_with(name, $3)) AND ($4::text IS NULL OR task = $4)
    AND ($5::text IS NULL OR queue = $5) AND ($6::text IS NULL OR $6 = ANY (tags))
    AND ($7::boolean IS NULL OR paused = $7)
ORDER BY name
LIMIT $2

-- name: delete
DELETE FROM mainspring.schedules WHERE name = $1 RETURNING name

-- name: wait_for
-- Whether they are paused and what they wait for, after a pause, a resume, or an edit of a calendar.
UPDATE mainspring.schedules
SET paused = step.paused, pause_note = step.pause_note, next_nominal_at = step.next_nominal_at,
    fires_at = step.fires_at, last_local = step.last_local, active_since = step.active_since,
    zone_data = step.zone_data, updated_at = clock_timestamp()
FROM unnest(
    $1::text[], $2::boolean[], $3::text[], $4::timestamptz[], $5::timestamptz[], $6::timestamp[], $7::timestamptz[],
    $8::text[]
) AS step (name, paused, pause_note, next_nominal_at, fires_at, last_local, active_since, zone_data)
WHERE schedules.name = step.name AND schedules.name = ANY ($1::text[])

-- name: set_aside
UPDATE mainspring.schedules SET broken = $2 WHERE name = $1
