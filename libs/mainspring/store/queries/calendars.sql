-- name: save
INSERT INTO mainspring.calendars (name, days, note) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET days = excluded.days, note = excluded.note, updated_at = clock_timestamp()

-- name: get
SELECT name, days, note, updated_at FROM mainspring.calendars WHERE name = $1

-- name: list
SELECT name, days, note, updated_at FROM mainspring.calendars WHERE name > $1 ORDER BY name LIMIT $2

-- name: make
INSERT INTO mainspring.calendars (name, days) VALUES ($1, '{}') ON CONFLICT (name) DO NOTHING

-- name: lock
-- Before it is changed or deleted: whoever saves a schedule with it has to wait.
SELECT days FROM mainspring.calendars WHERE name = $1 FOR UPDATE

-- name: hold
-- Neither changed nor deleted until the schedule that names them is saved.
SELECT name, days FROM mainspring.calendars WHERE name = ANY ($1::text[]) ORDER BY name FOR SHARE

-- name: delete
DELETE FROM mainspring.calendars WHERE name = $1
