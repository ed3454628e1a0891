-- phase: expand
-- breaking: no

-- How long things are kept, unless their queue says otherwise.
CREATE TABLE mainspring.retention (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    succeeded_days double precision NOT NULL DEFAULT 30 CHECK (succeeded_days > 0),
    cancelled_days double precision NOT NULL DEFAULT 30 CHECK (cancelled_days > 0),
    -- NULL: as long as their jobs.
    results_days double precision CHECK (results_days > 0),
    -- Attempts and events, of all jobs.
    history_days double precision NOT NULL DEFAULT 90 CHECK (history_days > 0),
    -- Idempotency keys and completions: so much longer than any job.
    keys_days double precision NOT NULL DEFAULT 30 CHECK (keys_days > 0)
);
INSERT INTO mainspring.retention DEFAULT VALUES;

-- {"succeeded_days", "cancelled_days", "results_days", "last"}: what it says otherwise.
ALTER TABLE mainspring.queues ADD COLUMN retention jsonb;

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'mainspring_read') THEN
        GRANT SELECT ON mainspring.retention TO mainspring_read;
    END IF;
END;
$$;
