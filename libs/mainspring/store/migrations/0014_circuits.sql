-- phase: expand
-- breaking: no
-- squawk-ignore-file adding-field-with-default, constraint-missing-not-valid, prefer-robust-stmts
-- (limits and tasks are a handful of rows)

-- What a task depends on, if it says so.
ALTER TABLE mainspring.tasks ADD COLUMN circuit text;

-- A circuit that tasks depend on. `level` is what was left of its budget of failures at `level_at`. Until `open_until`
-- nothing of it starts, and from then on `probes` at once; NULL: it is closed.
CREATE TABLE mainspring.circuits (
    name text PRIMARY KEY,
    failures integer NOT NULL CHECK (failures >= 1),
    period_seconds double precision NOT NULL CHECK (period_seconds > 0),
    share double precision NOT NULL CHECK (share > 0 AND share < 1),
    hold_seconds double precision NOT NULL CHECK (hold_seconds > 0),
    level double precision NOT NULL,
    level_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    open_until timestamptz,
    opened_at timestamptz,
    probes integer NOT NULL DEFAULT 1 CHECK (probes >= 1),
    passed integer NOT NULL DEFAULT 0,
    openings integer NOT NULL DEFAULT 0,
    opened_by text,
    note text,
    last_error text
);

-- A circuit that isn't closed holds its jobs by a limit of its own: none at once until `shut_until`, then `most`. Releases
-- from before see `most` alone, and let one at a time through.
ALTER TABLE mainspring.limits
    ADD COLUMN circuit text,
    ADD COLUMN shut_until timestamptz,
    ADD CONSTRAINT limits_shut CHECK (shut_until IS NULL OR circuit IS NOT NULL);

-- Limits as they are read: a queue's own has the queue's name. `shut_for`: seconds until its circuit may be probed.
CREATE VIEW mainspring.limits_now AS
SELECT
    limits.id, coalesce(limits.name, limits.queue) AS name, limits.kind, limits.most, limits.per, limits.period_seconds,
    limits.burst, limits.cost, limits.note, limits.strategy, limits.ordered,
    CASE WHEN limits.queue IS NULL THEN limits.queues ELSE ARRAY[limits.queue] END AS queues, limits.tasks,
    limits.circuit,
    coalesce(greatest(extract(epoch FROM limits.shut_until - clock_timestamp())::double precision, 0), 0) AS shut_for,
    limits.queue IS NOT NULL AS is_queues_own
FROM mainspring.limits;

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'mainspring_read') THEN
        GRANT SELECT ON mainspring.circuits, mainspring.limits_now TO mainspring_read;
    END IF;
END;
$$;
