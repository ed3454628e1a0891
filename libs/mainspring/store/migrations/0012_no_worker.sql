-- phase: expand
-- breaking: no
-- squawk-ignore-file require-concurrent-index-creation
-- (the index is on rows that don't exist yet)

-- Jobs that reached a worker which doesn't know their task while no worker that lives did.
CREATE INDEX live_jobs_no_worker ON mainspring.live_jobs (task) WHERE state = 'scheduled' AND reason = 'no_worker';

-- When an id was made, by the clock of its maker.
CREATE FUNCTION mainspring.made_at(id uuid) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
    SELECT to_timestamp(('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint / 1000.0)
$$;
