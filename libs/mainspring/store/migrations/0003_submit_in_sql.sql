-- phase: expand
-- breaking: no

-- A UUID of version 7: the milliseconds in the first 48 bits, then the version, then chance. A random UUID has
-- version 4; its bits 52 and 53 make a 7 of it.
CREATE FUNCTION mainspring.new_job_id() RETURNS uuid LANGUAGE sql VOLATILE AS $$
    SELECT encode(
        set_bit(
            set_bit(
                overlay(
                    uuid_send(gen_random_uuid())
                    PLACING substring(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3)
                    FROM 1 FOR 6
                ),
                52, 1
            ),
            53, 1
        ),
        'hex'
    )::uuid
$$;

CREATE FUNCTION mainspring.refuse_field(field text, message text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%: %', field, message USING ERRCODE = 'invalid_parameter_value', COLUMN = field;
END;
$$;

-- What the api refuses is refused here too, field by field.
CREATE FUNCTION mainspring.check_request(
    task text, payload jsonb, queue text, run_at timestamptz, delay interval, priority integer,
    timeout_seconds double precision, idempotency_key text, tags text [], expires_at timestamptz
) RETURNS void LANGUAGE plpgsql STABLE AS $$
DECLARE
    name_pattern constant text := '^[a-z0-9][a-z0-9_.-]{0,62}$';
    earliest constant timestamptz := '1970-01-01 00:00:00+00';
    latest constant timestamptz := '9000-01-01 00:00:00+00';
BEGIN
    IF task IS NULL OR task !~ name_pattern THEN
        PERFORM mainspring.refuse_field('task', 'must match [a-z0-9][a-z0-9_.-]{0,62}');
    END IF;
    IF queue !~ name_pattern THEN
        PERFORM mainspring.refuse_field('queue', 'must match [a-z0-9][a-z0-9_.-]{0,62}');
    END IF;
    IF payload IS NULL OR jsonb_typeof(payload) <> 'object' THEN
        PERFORM mainspring.refuse_field('payload', 'must be an object');
    END IF;
    IF octet_length(payload::text) > 262144 THEN
        PERFORM mainspring.refuse_field('payload', 'at most 262144 bytes of JSON');
    END IF;
    IF jsonb_path_exists(payload, 'strict $.**{65 to last}') THEN
        PERFORM mainspring.refuse_field('payload', 'is nested deeper than 64 levels');
    END IF;
    -- Numbers that only Postgres can hold: nobody could read the job any more.
    IF jsonb_path_exists(payload, 'strict $.** ? (@.type() == "number" && (@ >= 1e308 || @ <= -1e308))') THEN
        PERFORM mainspring.refuse_field('payload', 'holds a number that is too large');
    END IF;
    IF run_at IS NOT NULL AND delay IS NOT NULL THEN
        PERFORM mainspring.refuse_field('delay', 'give run_at or delay, not both');
    END IF;
    IF run_at NOT BETWEEN earliest AND latest THEN
        PERFORM mainspring.refuse_field('run_at', 'must lie between the years 1970 and 9000');
    END IF;
    IF expires_at NOT BETWEEN earliest AND latest THEN
        PERFORM mainspring.refuse_field('expires_at', 'must lie between the years 1970 and 9000');
    END IF;
    IF delay NOT BETWEEN interval '0' AND interval '3660 days' THEN
        PERFORM mainspring.refuse_field('delay', 'must be from 0 to 3660 days');
    END IF;
    IF priority NOT BETWEEN 0 AND 9 THEN
        PERFORM mainspring.refuse_field('priority', 'must be a whole number from 0 (first) to 9');
    END IF;
    IF timeout_seconds NOT BETWEEN 0.001 AND 2592000 THEN
        PERFORM mainspring.refuse_field('timeout_seconds', 'must be from 0.001 to 2592000 seconds');
    END IF;
    IF idempotency_key !~ '^[^[:cntrl:]]{1,255}$' THEN
        PERFORM mainspring.refuse_field('idempotency_key', 'must be 1 to 255 printable characters');
    END IF;
    IF cardinality(tags) > 32 OR EXISTS (
        SELECT FROM unnest(tags) AS tag WHERE tag IS NULL OR tag !~ '^[^[:cntrl:]]{1,100}$'
    ) THEN
        PERFORM mainspring.refuse_field('tags', 'at most 32, each of 1 to 100 printable characters');
    END IF;
END;
$$;

-- Submit a job in the caller's transaction, from any language; returns its id, or with a key that was used before for
-- the same request the id of the first job. Owned by whoever migrates, so that a caller needs no right on any table.
CREATE FUNCTION mainspring.submit(
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
    its_retry := coalesce(
        entry.retry, '{"max_attempts": 4, "base": 1.0, "factor": 10.0, "cap": 60.0}'::jsonb
    );
    starts := coalesce(submit.run_at, now + coalesce(submit.delay, interval '0'));
    INSERT INTO mainspring.queue_first_uses (name)
    SELECT its_queue WHERE NOT EXISTS (SELECT FROM mainspring.queues WHERE queues.name = its_queue);
    INSERT INTO mainspring.job_details (id, payload, retry, tags, run_at, created_at)
    VALUES (job_id, submit.payload, its_retry, submit.tags, starts, now);
    INSERT INTO mainspring.live_jobs (
        id, queue, task, state, priority, due_at, expires_at, max_attempts, timeout_seconds, idempotency_key
    ) VALUES (
        job_id, its_queue, submit.task, 'scheduled', coalesce(submit.priority, 5), greatest(starts, now),
        submit.expires_at, (its_retry ->> 'max_attempts')::integer,
        coalesce(submit.timeout_seconds, entry.timeout_seconds, 300), submit.idempotency_key
    );
    PERFORM pg_notify('mainspring_due', its_queue);
    RETURN job_id;
END;
$$;

REVOKE ALL ON FUNCTION mainspring.submit FROM PUBLIC;

-- Roles belong to the whole server: another database may have made them, and not everyone may make roles.
DO $$
DECLARE
    wanted text;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['mainspring_submit', 'mainspring_read'] LOOP
        BEGIN
            IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = wanted) THEN
                EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
            END IF;
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN
                NULL;
            WHEN insufficient_privilege THEN
                RAISE NOTICE 'role % is not made: it needs the right CREATEROLE', wanted;
        END;
    END LOOP;
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'mainspring_submit') THEN
        GRANT USAGE ON SCHEMA mainspring TO mainspring_submit;
        GRANT EXECUTE ON FUNCTION mainspring.submit TO mainspring_submit;
    END IF;
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'mainspring_read') THEN
        GRANT USAGE ON SCHEMA mainspring TO mainspring_read;
        GRANT SELECT ON
            mainspring.jobs, mainspring.live_jobs, mainspring.job_details, mainspring.finished_jobs,
            mainspring.attempts, mainspring.events, mainspring.completions, mainspring.dead_letters,
            mainspring.outbox, mainspring.schedules, mainspring.fires, mainspring.queues, mainspring.queue_usage,
            mainspring.limits, mainspring.tasks, mainspring.workers, mainspring.leader
        TO mainspring_read;
    END IF;
END;
$$;
