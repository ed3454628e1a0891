-- phase: expand
-- breaking: no
-- squawk-ignore-file require-concurrent-index-creation
-- (the tables are new and empty: no index locks anybody out)
--
-- The whole first schema. What is hot is narrow and leaves (live_jobs); what is bulky stays where it was
-- written (job_details); what is past is dropped by partition (finished_jobs, attempts, events). See
-- docs/adr/0001-physical-layout.md for the measurements.

CREATE TABLE mainspring.tasks (
    name text PRIMARY KEY,
    queue text NOT NULL,
    timeout_seconds double precision NOT NULL,
    retry jsonb NOT NULL,
    payload_schema jsonb NOT NULL,
    version text NOT NULL DEFAULT '',
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE mainspring.queues (
    name text PRIMARY KEY,
    paused boolean NOT NULL DEFAULT false,
    note text,
    -- At most this many jobs are in the broker at once: it bounds how far priority can be inverted.
    release_window integer NOT NULL DEFAULT 2000 CHECK (release_window BETWEEN 1 AND 1000000),
    -- After a returned message nothing is released until then.
    backs_off_until timestamptz NOT NULL DEFAULT '-infinity',
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- A queue is made by its first use. A submit only notes its name here, where no unique key can make it wait for
-- another transaction that uses the same new queue and is still open; a scheduler makes the queue.
CREATE TABLE mainspring.queue_first_uses (name text NOT NULL);

-- Each queue is two quorum queues in the broker: a typo in a loop must not make thousands.
CREATE FUNCTION mainspring.refuse_too_many_queues() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (
        SELECT count(*) FROM (
            SELECT queues.name FROM mainspring.queues
            UNION SELECT queue_first_uses.name FROM mainspring.queue_first_uses
            UNION SELECT NEW.name
        ) AS names
    ) > 500 THEN
        RAISE EXCEPTION 'at most 500 queues' USING ERRCODE = 'check_violation', CONSTRAINT = 'queues_most';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER queues_most BEFORE INSERT ON mainspring.queue_first_uses
    FOR EACH ROW EXECUTE FUNCTION mainspring.refuse_too_many_queues();

CREATE TABLE mainspring.limits (
    queue text NOT NULL REFERENCES mainspring.queues (name),
    kind text NOT NULL CHECK (kind = 'concurrency'),
    most integer NOT NULL CHECK (most >= 1),
    PRIMARY KEY (queue, kind)
);

-- One row for each job that can still run, and for each dead one until a person decides. Nothing bulky.
CREATE TABLE mainspring.live_jobs (
    id uuid PRIMARY KEY,
    queue text NOT NULL,
    task text NOT NULL,
    state text NOT NULL,
    reason text,
    priority smallint NOT NULL CHECK (priority BETWEEN 0 AND 9),
    due_at timestamptz NOT NULL,
    expires_at timestamptz,
    fence bigint NOT NULL DEFAULT 1 CHECK (fence >= 1),
    attempt integer NOT NULL DEFAULT 0,
    attempts_used integer NOT NULL DEFAULT 0,
    max_attempts integer NOT NULL CHECK (max_attempts >= 1),
    hand_backs integer NOT NULL DEFAULT 0,
    timeout_seconds double precision NOT NULL CHECK (timeout_seconds > 0),
    -- NULL: the job's own id is its key.
    idempotency_key text,
    schedule text,
    run_alone boolean NOT NULL DEFAULT false,
    -- How often its message was sent again because nobody had claimed it.
    rechecks smallint NOT NULL DEFAULT 0,
    released_at timestamptz,
    started_at timestamptz,
    finished_at timestamptz,
    worker uuid,
    claim_id uuid,
    lease_until timestamptz,
    cancel_requested boolean NOT NULL DEFAULT false,
    CONSTRAINT live_jobs_state CHECK (
        state IN ('scheduled', 'blocked', 'enqueued', 'admitted', 'running', 'retrying', 'dead')
    ),
    CONSTRAINT live_jobs_lease CHECK (
        (state = 'running') = (claim_id IS NOT NULL) AND (claim_id IS NULL) = (lease_until IS NULL)
    ),
    CONSTRAINT live_jobs_cancel CHECK (NOT cancel_requested OR state = 'running'),
    CONSTRAINT live_jobs_dead CHECK ((state = 'dead') = (finished_at IS NOT NULL)),
    CONSTRAINT live_jobs_dead_reason CHECK (
        state <> 'dead' OR reason IN ('exhausted', 'permanent', 'expired', 'discarded')
    ),
    CONSTRAINT live_jobs_attempts CHECK (attempts_used BETWEEN 0 AND attempt)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- What the release scans, in its order.
CREATE INDEX live_jobs_due ON mainspring.live_jobs (queue, priority, due_at, id)
    WHERE state IN ('scheduled', 'blocked');
-- What a queue has in the broker: its credit, and what is reconciled.
CREATE INDEX live_jobs_in_broker ON mainspring.live_jobs (queue, released_at)
    WHERE state IN ('enqueued', 'admitted');
-- What holds a lease: reclaim, and the slots of a limit. Heartbeats change no column of it.
CREATE INDEX live_jobs_running ON mainspring.live_jobs (queue, id) WHERE state = 'running';
CREATE INDEX live_jobs_expiring ON mainspring.live_jobs (expires_at)
    WHERE expires_at IS NOT NULL AND state IN ('scheduled', 'blocked', 'enqueued', 'admitted', 'retrying');
CREATE INDEX live_jobs_retrying ON mainspring.live_jobs (due_at) WHERE state = 'retrying';

-- The jobs of a schedule that have not ended: what the overlap policy counts.
CREATE INDEX live_jobs_schedule ON mainspring.live_jobs (schedule) WHERE schedule IS NOT NULL;

CREATE TABLE mainspring.job_details (
    id uuid NOT NULL,
    payload jsonb NOT NULL,
    retry jsonb NOT NULL,
    tags text [] NOT NULL DEFAULT '{}',
    run_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    nominal_at timestamptz,
    traceparent text,
    PRIMARY KEY (id)
) PARTITION BY RANGE (id);
CREATE TABLE mainspring.job_details_default PARTITION OF mainspring.job_details DEFAULT;

CREATE TABLE mainspring.finished_jobs (
    id uuid NOT NULL,
    queue text NOT NULL,
    task text NOT NULL,
    state text NOT NULL CHECK (state IN ('succeeded', 'cancelled')),
    reason text,
    priority smallint NOT NULL,
    due_at timestamptz NOT NULL,
    expires_at timestamptz,
    fence bigint NOT NULL,
    attempt integer NOT NULL,
    attempts_used integer NOT NULL,
    max_attempts integer NOT NULL,
    timeout_seconds double precision NOT NULL,
    idempotency_key text,
    schedule text,
    started_at timestamptz,
    finished_at timestamptz NOT NULL,
    worker uuid,
    result jsonb,
    PRIMARY KEY (id, finished_at)
) PARTITION BY RANGE (finished_at);
CREATE TABLE mainspring.finished_jobs_default PARTITION OF mainspring.finished_jobs DEFAULT;

CREATE TABLE mainspring.attempts (
    job_id uuid NOT NULL,
    fence bigint NOT NULL,
    attempt integer NOT NULL,
    outcome text NOT NULL CHECK (
        outcome IN ('succeeded', 'failed', 'timed_out', 'worker_lost', 'cancelled', 'handed_back', 'snoozed')
    ),
    worker uuid,
    started_at timestamptz,
    ended_at timestamptz NOT NULL,
    error jsonb,
    PRIMARY KEY (job_id, fence, ended_at)
) PARTITION BY RANGE (ended_at);
CREATE TABLE mainspring.attempts_default PARTITION OF mainspring.attempts DEFAULT;

CREATE TABLE mainspring.events (
    job_id uuid,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    event text NOT NULL,
    fence bigint,
    author text,
    details jsonb NOT NULL DEFAULT '{}'
) PARTITION BY RANGE (at);
CREATE TABLE mainspring.events_default PARTITION OF mainspring.events DEFAULT;
CREATE INDEX events_job ON mainspring.events (job_id, at);

-- History can be dropped by retention, partition by partition, and changed by no one.
CREATE FUNCTION mainspring.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE TRIGGER attempts_append_only BEFORE UPDATE OR DELETE ON mainspring.attempts
    FOR EACH ROW EXECUTE FUNCTION mainspring.refuse_change();
CREATE TRIGGER events_append_only BEFORE UPDATE OR DELETE ON mainspring.events
    FOR EACH ROW EXECUTE FUNCTION mainspring.refuse_change();
CREATE TRIGGER attempts_keep BEFORE TRUNCATE ON mainspring.attempts
    FOR EACH STATEMENT EXECUTE FUNCTION mainspring.refuse_change();
CREATE TRIGGER events_keep BEFORE TRUNCATE ON mainspring.events
    FOR EACH STATEMENT EXECUTE FUNCTION mainspring.refuse_change();

-- A unique key can't span time partitions, so these two are tables of their own; a key outlives its job.
CREATE TABLE mainspring.completions (
    idempotency_key text PRIMARY KEY,
    job_id uuid NOT NULL,
    fence bigint NOT NULL,
    completed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE mainspring.idempotency_keys (
    key text PRIMARY KEY,
    job_id uuid NOT NULL,
    request_hash bytea NOT NULL,
    -- What the first request was answered, to be given again; set in the same transaction.
    answer text,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE mainspring.dead_letters (
    id uuid PRIMARY KEY,
    kind text NOT NULL CHECK (kind IN ('job', 'message')),
    job_id uuid UNIQUE,
    queue text,
    task text,
    reason text NOT NULL,
    outcome text,
    error jsonb,
    fingerprint text NOT NULL,
    body bytea,
    died_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    alerted_at timestamptz,
    CHECK ((kind = 'job') = (job_id IS NOT NULL)),
    CHECK ((kind = 'message') = (body IS NOT NULL))
);
CREATE INDEX dead_letters_unalerted ON mainspring.dead_letters (died_at) WHERE alerted_at IS NULL;
CREATE INDEX dead_letters_newest ON mainspring.dead_letters (died_at, id);

CREATE TABLE mainspring.outbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue text NOT NULL,
    ids uuid [] NOT NULL,
    tickets bigint [] NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK (cardinality(ids) = cardinality(tickets) AND cardinality(ids) BETWEEN 1 AND 100)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE mainspring.schedules (
    name text PRIMARY KEY,
    task text NOT NULL,
    payload jsonb NOT NULL DEFAULT '{}',
    cron text,
    every_seconds double precision,
    at timestamptz,
    timezone text NOT NULL DEFAULT 'UTC',
    jitter_seconds double precision NOT NULL DEFAULT 0 CHECK (jitter_seconds >= 0),
    misfire text NOT NULL DEFAULT 'fire_once' CHECK (misfire IN ('skip', 'fire_once', 'fire_all')),
    max_catchup integer NOT NULL DEFAULT 100 CHECK (max_catchup >= 0),
    catchup_window_seconds double precision NOT NULL DEFAULT 31536000,
    overlap text NOT NULL DEFAULT 'skip' CHECK (
        overlap IN ('allow', 'skip', 'queue_one', 'queue_all', 'cancel_running')
    ),
    start_at timestamptz,
    end_at timestamptz,
    max_runs integer CHECK (max_runs >= 1),
    runs integer NOT NULL DEFAULT 0,
    paused boolean NOT NULL DEFAULT false,
    note text,
    queue text,
    priority smallint CHECK (priority BETWEEN 0 AND 9),
    tags text [] NOT NULL DEFAULT '{}',
    next_nominal_at timestamptz,
    -- next_nominal_at plus its jitter: when the scheduler fires it.
    fires_at timestamptz,
    -- Why this schedule can't be evaluated; it is set aside until it is edited.
    broken text,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT schedules_trigger CHECK (num_nonnulls(cron, every_seconds, at) = 1)
);
CREATE INDEX schedules_due ON mainspring.schedules (fires_at) WHERE NOT paused AND broken IS NULL;

-- One row for each nominal time that became a job, one for each run of nominal times that was skipped.
CREATE TABLE mainspring.fires (
    schedule text NOT NULL,
    nominal_at timestamptz NOT NULL,
    last_nominal_at timestamptz NOT NULL,
    nominal_times integer NOT NULL DEFAULT 1 CHECK (nominal_times >= 1),
    job_id uuid,
    skipped text,
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (schedule, nominal_at),
    CHECK ((job_id IS NULL) = (skipped IS NOT NULL)),
    CHECK (job_id IS NULL OR nominal_times = 1)
);
CREATE TABLE mainspring.workers (
    id uuid PRIMARY KEY,
    host text NOT NULL,
    pid integer NOT NULL,
    version text NOT NULL,
    queues text [] NOT NULL,
    tasks text [] NOT NULL,
    slots integer NOT NULL,
    free_slots integer NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    beat_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

CREATE TABLE mainspring.leader (
    duty text PRIMARY KEY,
    holder uuid NOT NULL,
    -- A key column on purpose: taking over waits for every transaction that holds FOR KEY SHARE on the row.
    term bigint NOT NULL,
    expires_at timestamptz NOT NULL,
    UNIQUE (duty, term)
);

-- What the broker is expected to remember. A queue named by the epoch that is missing means amnesia.
CREATE TABLE mainspring.broker_epoch (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    epoch uuid NOT NULL DEFAULT gen_random_uuid(),
    topology_version integer NOT NULL DEFAULT 0,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO mainspring.broker_epoch DEFAULT VALUES;

CREATE VIEW mainspring.jobs AS
SELECT
    job.id,
    job.task,
    job.queue,
    job.state,
    job.reason,
    job.priority,
    details.payload,
    job.result,
    (
        SELECT attempts.error FROM mainspring.attempts
        WHERE attempts.job_id = job.id AND attempts.error IS NOT NULL AND job.state <> 'succeeded'
        ORDER BY attempts.fence DESC LIMIT 1
    ) AS error,
    job.attempt,
    job.attempts_used,
    job.max_attempts,
    job.timeout_seconds,
    details.run_at,
    job.due_at,
    details.created_at,
    job.started_at,
    job.finished_at,
    coalesce(job.idempotency_key, job.id::text) AS idempotency_key,
    details.tags,
    job.schedule,
    details.nominal_at,
    job.worker,
    details.traceparent,
    job.fence,
    job.expires_at,
    job.cancel_requested,
    job.lease_until
FROM (
    SELECT
        id, task, queue, state, reason, priority, NULL::jsonb AS result, attempt, attempts_used, max_attempts,
        timeout_seconds, due_at, started_at, finished_at, idempotency_key, schedule, worker, fence, expires_at,
        cancel_requested, lease_until
    FROM mainspring.live_jobs
    UNION ALL
    SELECT
        id, task, queue, state, reason, priority, result, attempt, attempts_used, max_attempts,
        timeout_seconds, due_at, started_at, finished_at, idempotency_key, schedule, worker, fence, expires_at,
        false, NULL
    FROM mainspring.finished_jobs
) AS job
LEFT JOIN mainspring.job_details AS details ON details.id = job.id;
