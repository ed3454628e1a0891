-- name: register
-- Circuits are made by first use.
INSERT INTO mainspring.circuits (name, failures, period_seconds, share, hold_seconds, level)
SELECT asked.name, $2::integer, $3, $4, $5, $2::integer FROM unnest($1::text[]) AS asked (name)
WHERE NOT EXISTS (SELECT FROM mainspring.circuits WHERE circuits.name = asked.name)
ON CONFLICT (name) DO NOTHING

-- name: count
SELECT count(*) FROM (SELECT name FROM mainspring.circuits UNION SELECT unnest($1::text[])) AS known

-- name: refit
-- A circuit that holds jobs holds those of new tasks too.
UPDATE mainspring.limits SET tasks = ARRAY(
    SELECT tasks.name FROM mainspring.tasks WHERE tasks.circuit = limits.circuit ORDER BY tasks.name
)
WHERE circuit IS NOT NULL AND tasks IS DISTINCT FROM ARRAY(
    SELECT tasks.name FROM mainspring.tasks WHERE tasks.circuit = limits.circuit ORDER BY tasks.name
)

-- name: all
SELECT
    circuits.*, clock_timestamp() AS now,
    ARRAY(SELECT tasks.name FROM mainspring.tasks WHERE tasks.circuit = circuits.name ORDER BY tasks.name) AS tasks
FROM mainspring.circuits
WHERE $1::text IS NULL OR circuits.name = $1
ORDER BY circuits.name

-- name: lock
SELECT *, clock_timestamp() AS now FROM mainspring.circuits WHERE name = $1 FOR NO KEY UPDATE

-- name: save
UPDATE mainspring.circuits
SET level = $2, level_at = $3, open_until = $4, opened_at = $5, probes = $6, passed = $7, openings = $8,
    failures = $9, period_seconds = $10, share = $11, hold_seconds = $12,
    opened_by = CASE WHEN $4::timestamptz IS NOT NULL THEN coalesce($13, opened_by) END,
    note = CASE WHEN $4::timestamptz IS NOT NULL THEN coalesce($14, note) END,
    last_error = coalesce($15, last_error)
WHERE name = $1

-- name: hold
-- A limit of somebody else that has this name is left alone.
INSERT INTO mainspring.limits (name, kind, most, tasks, circuit, shut_until)
VALUES (
    $1, 'concurrency', $3, ARRAY(SELECT tasks.name FROM mainspring.tasks WHERE tasks.circuit = $2 ORDER BY tasks.name),
    $2, $4
)
ON CONFLICT (name) DO UPDATE SET most = excluded.most, shut_until = excluded.shut_until
WHERE limits.circuit = excluded.circuit

-- name: let_go
DELETE FROM mainspring.limits WHERE circuit = $1

-- name: wake
-- Each queue in which jobs wait in lines.
SELECT pg_notify($1, queues.name) FROM mainspring.queues
WHERE EXISTS (
    SELECT FROM mainspring.live_jobs
    WHERE live_jobs.queue = queues.name AND live_jobs.state = 'blocked' AND live_jobs.line IS NOT NULL
)

-- name: delete
-- Only one that no task names, and that holds nothing.
DELETE FROM mainspring.circuits
WHERE name = $1 AND NOT EXISTS (SELECT FROM mainspring.tasks WHERE tasks.circuit = $1)
RETURNING name
