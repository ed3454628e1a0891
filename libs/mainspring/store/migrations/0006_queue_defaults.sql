-- phase: expand
-- breaking: no

-- What a job of the queue has when neither its request nor its task says it.
ALTER TABLE mainspring.queues
ADD COLUMN default_priority smallint CONSTRAINT queues_default_priority CHECK (default_priority BETWEEN 0 AND 9),
ADD COLUMN default_timeout_seconds double precision
CONSTRAINT queues_default_timeout CHECK (default_timeout_seconds > 0),
ADD COLUMN default_retry jsonb;

-- As before, with the queue's defaults.
CREATE OR REPLACE FUNCTION mainspring.submit(
    task text,
    payload jsonb DEFAULT '{}',
    queue text DEFAULT NULL,
    run_at timestamptz DEFAULT NULL,
    delay interval DEFAULT NULL,
    priority integer DEFAULT NULL,
    timeout_seconds double precision DEFAULT NULL,
    idempotency_key text DEFAULT NULL,
    tags text [] DEFAULT '{}',
    expires_at timestamptz DEFAULT NULL
) RETURNS uuid LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    job_id constant uuid := mainspring.new_job_id();
    now constant timestamptz := clock_timestamp();
    digest bytea;
    first record;
    entry record;
    lane record;
    its_queue text;
    its_retry jsonb;
    starts timestamptz;
BEGIN
    PERFORM mainspring.check_request(
        submit.task, submit.payload, submit.queue, submit.run_at, submit.delay, submit.priority,
        submit.timeout_seconds, submit.idempotency_key, submit.tags, submit.expires_at
    );
    IF submit.idempotency_key IS NOT NULL THEN
        digest := sha256(convert_to(jsonb_build_array(
            'sql', submit.task, submit.payload, submit.queue, submit.run_at, submit.delay, submit.priority,
            submit.timeout_seconds, submit.tags, submit.expires_at
        )::text, 'UTF8'));
        INSERT INTO mainspring.idempotency_keys (key, job_id, request_hash)
        VALUES (submit.idempotency_key, job_id, digest) ON CONFLICT (key) DO NOTHING;
        IF NOT found THEN
            SELECT keys.job_id, keys.request_hash INTO first
            FROM mainspring.idempotency_keys AS keys WHERE keys.key = submit.idempotency_key;
            IF first.request_hash IS DISTINCT FROM digest THEN
                PERFORM mainspring.refuse_field('idempotency_key', 'was used with another request');
            END IF;
            RETURN first.job_id;
        END IF;
    END IF;
    SELECT tasks.queue, tasks.timeout_seconds, tasks.retry INTO entry
    FROM mainspring.tasks WHERE tasks.name = submit.task;
    its_queue := coalesce(submit.queue, entry.queue, 'default');
    SELECT queues.default_priority, queues.default_timeout_seconds, queues.default_retry INTO lane
    FROM mainspring.queues WHERE queues.name = its_queue;
    its_retry := coalesce(
        entry.retry, lane.default_retry, '{"max_attempts": 4, "base": 1.0, "factor": 10.0, "cap": 60.0}'::jsonb
    );
    starts := coalesce(submit.run_at, now + coalesce(submit.delay, interval '0'));
    INSERT INTO mainspring.queue_first_uses (name)
    SELECT its_queue WHERE NOT EXISTS (SELECT FROM mainspring.queues WHERE queues.name = its_queue);
    INSERT INTO mainspring.job_details (id, payload, retry, tags, run_at, created_at)
    VALUES (job_id, submit.payload, its_retry, submit.tags, starts, now);
    INSERT INTO mainspring.live_jobs (
        id, queue, task, state, priority, due_at, expires_at, max_attempts, timeout_seconds, idempotency_key
    ) VALUES (
        job_id, its_queue, submit.task, 'scheduled', coalesce(submit.priority, lane.default_priority, 5), greatest(starts, now),
        submit.expires_at, (its_retry ->> 'max_attempts')::integer,
        coalesce(submit.timeout_seconds, entry.timeout_seconds, lane.default_timeout_seconds, 300), submit.idempotency_key
    );
    PERFORM pg_notify('mainspring_due', its_queue);
    RETURN job_id;
END;
$$;

-- The role that reads may follow the history too.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'mainspring_read') THEN
        GRANT SELECT ON mainspring.history TO mainspring_read;
    END IF;
END;
$$;
