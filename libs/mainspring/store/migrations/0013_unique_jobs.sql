-- phase: expand
-- breaking: no

-- Which job has the place of all that are the same: by task and key, or payload, as a digest.
CREATE TABLE mainspring.unique_jobs (
    key bytea PRIMARY KEY,
    job_id uuid NOT NULL,
    made_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'mainspring_read') THEN
        GRANT SELECT ON mainspring.unique_jobs TO mainspring_read;
    END IF;
END;
$$;
