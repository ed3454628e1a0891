-- phase: expand
-- breaking: no
-- squawk-ignore-file require-concurrent-index-creation
-- (an index on a partitioned table can't be built concurrently; the partitions of one day are built in seconds)

-- Which transaction wrote a row. Time can't order the history for those who follow it: a row may be committed after
-- younger ones were read. A transaction was either seen or not, and a snapshot of Postgres says exactly which.
-- Rows from before have no transaction that anybody could have missed: 0, which no snapshot begins with.
ALTER TABLE mainspring.events ADD COLUMN xact xid8 NOT NULL DEFAULT '0';
ALTER TABLE mainspring.attempts ADD COLUMN xact xid8 NOT NULL DEFAULT '0';
ALTER TABLE mainspring.events ALTER COLUMN xact SET DEFAULT pg_current_xact_id();
ALTER TABLE mainspring.attempts ALTER COLUMN xact SET DEFAULT pg_current_xact_id();
CREATE INDEX events_xact ON mainspring.events (xact);
CREATE INDEX attempts_xact ON mainspring.attempts (xact);

-- Both halves of the history in one form: what GET /v1/events streams.
CREATE VIEW mainspring.history AS
SELECT xact, job_id, at, event, fence, author, details FROM mainspring.events
UNION ALL
SELECT
    xact, job_id, ended_at, 'attempt', fence, NULL,
    jsonb_build_object(
        'attempt', attempt, 'outcome', outcome, 'worker', worker, 'started_at', started_at,
        'error', error - 'traceback'
    )
FROM mainspring.attempts;
