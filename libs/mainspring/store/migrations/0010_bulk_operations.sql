-- phase: expand
-- breaking: no

-- Something that a person asked to be done to all jobs, or dead letters, that pass a filter. Schedulers do it in small
-- transactions, each of which moves this row on, so that it is done once and a stop loses nothing.
CREATE TABLE mainspring.bulk_operations (
    id uuid PRIMARY KEY,
    action text NOT NULL CHECK (action IN ('cancel', 'retry', 'edit', 'redrive', 'discard')),
    filter jsonb NOT NULL,
    -- Of an edit.
    priority smallint CHECK (priority BETWEEN 0 AND 9),
    per_second double precision CHECK (per_second > 0),
    -- The shares of all after which it waits for the outcomes, and the share of failures at which it stops.
    canary double precision [] NOT NULL DEFAULT '{}',
    most_failures double precision CHECK (most_failures BETWEEN 0 AND 1),
    note text,
    author text NOT NULL,
    state text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'finished', 'stopped', 'cancelled')),
    -- Why it stopped by itself.
    reason text,
    matched bigint NOT NULL,
    -- How many were taken, and of how many of them that was too late.
    taken bigint NOT NULL DEFAULT 0,
    missed bigint NOT NULL DEFAULT 0,
    -- Of a canary: the share that it is at, and what has become of those it took.
    step smallint NOT NULL DEFAULT 0,
    succeeded bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0,
    -- The last job that it looked at; of a dead letter also when it died, by which they are in order.
    reached uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    reached_at timestamptz,
    next_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at timestamptz
);
CREATE INDEX bulk_operations_running ON mainspring.bulk_operations (id) WHERE state = 'running';

-- Jobs that a canary put back to work and whose first attempt since then has not ended.
CREATE TABLE mainspring.canary_jobs (
    operation uuid NOT NULL,
    job_id uuid NOT NULL,
    fence bigint NOT NULL,
    PRIMARY KEY (operation, job_id)
);

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'mainspring_read') THEN
        GRANT SELECT ON mainspring.bulk_operations, mainspring.canary_jobs TO mainspring_read;
    END IF;
END;
$$;
