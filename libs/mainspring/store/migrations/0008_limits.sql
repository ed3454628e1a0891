-- phase: expand
-- breaking: no
-- squawk-ignore-file require-concurrent-index-creation, constraint-missing-not-valid, disallowed-unique-constraint
-- squawk-ignore-file ban-drop-constraint, adding-field-with-default, adding-serial-primary-key-field, ban-drop-not-null
-- (limits are a handful of rows; the index is on rows that don't exist yet)

-- A limit has a name and applies to the jobs of its queues and of its tasks. A row of before is a queue's own limit: it
-- has a queue and no name, which is how an older release finds it and writes it.
ALTER TABLE mainspring.limits
    DROP CONSTRAINT limits_pkey,
    DROP CONSTRAINT limits_kind_check;
ALTER TABLE mainspring.limits
    ALTER COLUMN queue DROP NOT NULL,
    ADD COLUMN id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    ADD COLUMN name text UNIQUE,
    ADD COLUMN queues text [] NOT NULL DEFAULT '{}',
    ADD COLUMN tasks text [] NOT NULL DEFAULT '{}',
    -- Where in the payload the key is that it counts by (customer.id); NULL: all its jobs together.
    ADD COLUMN per text,
    -- Rates: so many tokens in a period, so many of them at once; where in the payload the tokens that a job takes are.
    ADD COLUMN period_seconds double precision CONSTRAINT limits_period CHECK (period_seconds > 0),
    ADD COLUMN burst integer CONSTRAINT limits_burst CHECK (burst >= 1),
    ADD COLUMN cost text,
    ADD COLUMN note text,
    ADD CONSTRAINT limits_queue_kind UNIQUE (queue, kind),
    ADD CONSTRAINT limits_kind CHECK (kind IN ('concurrency', 'rate')),
    ADD CONSTRAINT limits_is_somebodys CHECK ((queue IS NULL) <> (name IS NULL)),
    ADD CONSTRAINT limits_rate CHECK ((kind = 'rate') = (period_seconds IS NOT NULL)),
    ADD CONSTRAINT limits_of_rate CHECK ((kind = 'rate') = (burst IS NOT NULL) AND (cost IS NULL OR kind = 'rate'));

-- What a rate limit has given out, for each of its keys.
CREATE TABLE mainspring.rates (
    limit_id integer NOT NULL,
    key text NOT NULL,
    -- The latest instant at which tokens were taken. Time doesn't go back here, whatever the clock does.
    latest timestamptz NOT NULL,
    -- What the bucket of `burst` tokens held then.
    level double precision NOT NULL,
    -- When tokens of the last period were taken, and how many, the oldest first; in cells of 1/64 of the period.
    taken_at timestamptz [] NOT NULL DEFAULT '{}',
    taken integer [] NOT NULL DEFAULT '{}',
    PRIMARY KEY (limit_id, key)
) WITH (fillfactor = 50);

-- Between keys of a queue: they take turns at the release, so many jobs a turn (one, when the weights don't say).
ALTER TABLE mainspring.queues
    ADD COLUMN fair_by text,
    ADD COLUMN fair_weights jsonb NOT NULL DEFAULT '{}',
    -- A job that says nothing about it is dead when it has not started so long after its time.
    ADD COLUMN default_expiry_seconds double precision CONSTRAINT queues_expiry CHECK (default_expiry_seconds > 0),
    -- A job that has waited so long is released as if it had the next higher priority, and so on; NULL: never.
    ADD COLUMN aging_seconds double precision DEFAULT 300 CONSTRAINT queues_aging CHECK (aging_seconds >= 1),
    -- Beyond so many waiting jobs a submit is refused.
    ADD COLUMN most_waiting integer CONSTRAINT queues_most_waiting CHECK (most_waiting >= 1),
    ADD COLUMN paused_at timestamptz,
    ADD COLUMN paused_by text;

-- The line that a due job waits in: jobs of one line have the same limits and the same keys, so when the first can't
-- start none can. Not NULL while `blocked` there; otherwise what it was at the last look.
ALTER TABLE mainspring.live_jobs ADD COLUMN line text COLLATE "C";
CREATE INDEX live_jobs_lines ON mainspring.live_jobs (queue, priority, line, due_at, id)
WHERE state = 'blocked' AND line IS NOT NULL;

-- A value of a payload as a key. A long one is shortened: it stays its own.
CREATE FUNCTION mainspring.payload_key(payload jsonb, path text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    value constant text := coalesce(payload #>> string_to_array(path, '.'), '');
BEGIN
    RETURN CASE WHEN length(value) > 100 THEN left(value, 60) || '#' || md5(value) ELSE value END;
END;
$$;

CREATE FUNCTION mainspring.limits_of(wanted_queue text, wanted_task text) RETURNS SETOF mainspring.limits
LANGUAGE sql STABLE AS $$
    SELECT * FROM mainspring.limits
    WHERE limits.queue = wanted_queue OR wanted_queue = ANY (limits.queues) OR wanted_task = ANY (limits.tasks)
$$;

-- By what the jobs of a task in a queue are told apart: the key that takes turns, whether limits name the task, and the
-- places in the payload by which limits count.
CREATE FUNCTION mainspring.line_marks(
    wanted_queue text, wanted_task text, OUT fair_by text, OUT is_task_limited boolean, OUT paths text []
) RETURNS record LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT queues.fair_by INTO fair_by FROM mainspring.queues WHERE queues.name = wanted_queue;
    SELECT coalesce(bool_or(wanted_task = ANY (limits.tasks)), false) INTO is_task_limited
    FROM mainspring.limits_of(wanted_queue, wanted_task) AS limits;
    SELECT coalesce(array_agg(DISTINCT found.path), '{}') INTO paths
    FROM mainspring.limits_of(wanted_queue, wanted_task) AS limits
    CROSS JOIN LATERAL (VALUES (limits.per), (limits.cost)) AS found (path)
    WHERE found.path IS NOT NULL;
END;
$$;

-- ["the key whose turn it is", "the task, when limits name it", {"a place in the payload": "its value"}]
CREATE FUNCTION mainspring.draw_line(
    task text, payload jsonb, fair_by text, is_task_limited boolean, paths text []
) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    keys jsonb := '{}';
    path text;
BEGIN
    FOREACH path IN ARRAY paths LOOP
        keys := keys || jsonb_build_object(path, mainspring.payload_key(payload, path));
    END LOOP;
    RETURN jsonb_build_array(
        CASE WHEN fair_by IS NULL THEN '' ELSE mainspring.payload_key(payload, fair_by) END,
        CASE WHEN is_task_limited THEN task ELSE '' END,
        keys
    )::text;
END;
$$;

-- The line of one job.
CREATE FUNCTION mainspring.line_of(wanted_id uuid, wanted_queue text, wanted_task text) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT mainspring.draw_line(wanted_task, details.payload, marks.fair_by, marks.is_task_limited, marks.paths)
    FROM mainspring.line_marks(wanted_queue, wanted_task) AS marks, mainspring.job_details AS details
    WHERE details.id = wanted_id
$$;

-- The value that a job has at a place in its payload: from its line, when that tells it.
CREATE FUNCTION mainspring.key_of(job_id uuid, line text, path text) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN CASE WHEN path IS NULL THEN '' ELSE coalesce(
        line::jsonb -> 2 ->> path,
        (SELECT mainspring.payload_key(details.payload, path) FROM mainspring.job_details AS details WHERE details.id = job_id),
        ''
    ) END;
END;
$$;

-- The tokens that a job takes: what its payload says, a whole number from 1 to all that the limit ever gives at once.
CREATE FUNCTION mainspring.cost_of(job_id uuid, line text, rate mainspring.limits) RETURNS integer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    asked constant text := CASE WHEN rate.cost IS NOT NULL THEN mainspring.key_of(job_id, line, rate.cost) END;
BEGIN
    RETURN CASE WHEN asked ~ '^[0-9]{1,9}$' THEN greatest(1, least(asked::integer, rate.burst)) ELSE 1 END;
END;
$$;

-- How many tokens a rate has at an instant, and when it has `wanted`. In any span of the period no more than `most` are
-- given, unless `burst` allows more at once: then no more than `burst` and what the span's length adds, as everywhere.
CREATE FUNCTION mainspring.rate_room(
    rate mainspring.limits, given mainspring.rates, instant timestamptz, wanted integer,
    OUT room integer, OUT level double precision, OUT free_at timestamptz
) LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    period constant interval := make_interval(secs => rate.period_seconds);
    per_second constant double precision := rate.most / rate.period_seconds;
    left_over bigint := rate.most;
BEGIN
    free_at := instant;
    IF given.latest IS NULL THEN
        level := rate.burst;
        room := CASE WHEN rate.burst > rate.most THEN rate.burst ELSE least(rate.burst, rate.most) END;
        RETURN;
    END IF;
    level := least(rate.burst, given.level + greatest(0, extract(epoch FROM instant - given.latest)) * per_second);
    room := floor(level + 1e-6)::integer;
    IF room < wanted THEN
        free_at := instant + make_interval(secs => (wanted - level) / per_second);
    END IF;
    IF rate.burst > rate.most THEN
        RETURN;
    END IF;
    FOR place IN 1 .. cardinality(given.taken) LOOP
        IF given.taken_at[place] > instant - period THEN
            left_over := left_over - given.taken[place];
        END IF;
    END LOOP;
    room := least(room, greatest(left_over, 0))::integer;
    FOR place IN 1 .. cardinality(given.taken) LOOP
        EXIT WHEN left_over >= wanted;
        IF given.taken_at[place] > instant - period THEN
            left_over := left_over + given.taken[place];
            free_at := greatest(free_at, given.taken_at[place] + period);
        END IF;
    END LOOP;
END;
$$;

-- What a rate has given after `spent` more tokens at an instant.
CREATE FUNCTION mainspring.rate_spent(
    rate mainspring.limits, given mainspring.rates, instant timestamptz, level_before double precision, spent integer
) RETURNS mainspring.rates LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    period constant interval := make_interval(secs => rate.period_seconds);
    cell constant double precision := rate.period_seconds / 64;
    last integer;
    first integer := 1;
BEGIN
    WHILE first <= cardinality(given.taken) AND given.taken_at[first] <= instant - period LOOP
        first := first + 1;
    END LOOP;
    given.taken_at := given.taken_at[first:];
    given.taken := given.taken[first:];
    last := cardinality(given.taken);
    IF last > 0 AND floor(extract(epoch FROM given.taken_at[last]) / cell) = floor(extract(epoch FROM instant) / cell) THEN
        -- All of a cell counts as taken with its latest: that gives out later, never more.
        given.taken_at[last] := instant;
        given.taken[last] := given.taken[last] + spent;
    ELSE
        given.taken_at := given.taken_at || instant;
        given.taken := given.taken || spent;
    END IF;
    given.latest := instant;
    given.level := level_before - spent;
    RETURN given;
END;
$$;

CREATE TYPE mainspring.rate_use AS (place integer, job_id uuid, limit_id integer, key text, cost integer);

-- Take the tokens of jobs that start now, in the order given: all that a job needs, or none. Exact, since it holds the
-- rows of the rates until the end of its transaction. Jobs without a rate limit are not mentioned in the answer.
CREATE FUNCTION mainspring.take_tokens(ids uuid []) RETURNS TABLE (job_id uuid, is_granted boolean, taken_at timestamptz)
LANGUAGE plpgsql ROWS 10 AS $$
#variable_conflict use_column
DECLARE
    uses mainspring.rate_use [];
    wanted mainspring.rate_use [];
    buckets text [] := '{}';
    rooms integer [] := '{}';
    levels double precision [] := '{}';
    spent integer [] := '{}';
    has_all boolean := true;
    instant timestamptz;
    bucket record;
    job record;
BEGIN
    SELECT array_agg((
        asked.place, job.id, rate.id,
        CASE
            WHEN rate.per IS NULL THEN ''
            ELSE coalesce(job.keys ->> rate.per, mainspring.key_of(job.id, NULL, rate.per))
        END,
        CASE WHEN rate.cost IS NULL THEN 1 ELSE mainspring.cost_of(job.id, job.line, rate) END
    )::mainspring.rate_use) INTO uses
    FROM unnest(ids) WITH ORDINALITY AS asked (id, place)
    CROSS JOIN LATERAL (
        SELECT id, queue, task, line, line::jsonb -> 2 AS keys FROM mainspring.live_jobs WHERE live_jobs.id = asked.id
        OFFSET 0
    ) AS job
    CROSS JOIN LATERAL mainspring.limits_of(job.queue, job.task) AS rate
    WHERE rate.kind = 'rate';
    IF uses IS NULL THEN
        RETURN;
    END IF;
    -- One for each rate and key, with all that is asked of it.
    SELECT array_agg((0, NULL, one.limit_id, one.key, one.cost)::mainspring.rate_use ORDER BY one.limit_id, one.key)
    INTO wanted
    FROM (
        SELECT limit_id, key, least(sum(cost), 2000000000)::integer AS cost FROM unnest(uses) GROUP BY limit_id, key
    ) AS one;
    INSERT INTO mainspring.rates (limit_id, key, latest, level)
    SELECT one.limit_id, one.key, '1970-01-01', 0 FROM unnest(wanted) AS one
    WHERE NOT EXISTS (SELECT FROM mainspring.rates WHERE rates.limit_id = one.limit_id AND rates.key = one.key)
    ON CONFLICT DO NOTHING;
    FOR bucket IN
        SELECT one.limit_id, one.key, one.cost, rates.latest
        FROM unnest(wanted) AS one
        CROSS JOIN LATERAL (
            SELECT latest FROM mainspring.rates WHERE rates.limit_id = one.limit_id AND rates.key = one.key FOR UPDATE
        ) AS rates
    LOOP
        instant := greatest(instant, bucket.latest);
    END LOOP;
    instant := greatest(instant, clock_timestamp());
    FOR bucket IN
        SELECT one.limit_id || ' ' || one.key AS name, one.cost, found.room, found.level
        FROM unnest(wanted) AS one
        JOIN mainspring.rates ON rates.limit_id = one.limit_id AND rates.key = one.key
        JOIN mainspring.limits ON limits.id = one.limit_id
        CROSS JOIN LATERAL mainspring.rate_room(limits, rates, instant, 1) AS found
    LOOP
        buckets := buckets || bucket.name;
        rooms := rooms || bucket.room;
        levels := levels || bucket.level;
        spent := spent || bucket.cost;
        has_all := has_all AND bucket.cost <= bucket.room;
    END LOOP;
    IF has_all THEN
        RETURN QUERY SELECT DISTINCT one.job_id, true, instant FROM unnest(uses) AS one;
    ELSE
        spent := array_fill(0, ARRAY[cardinality(buckets)]);
        FOR job IN
            SELECT one.job_id,
                array_agg(array_position(buckets, one.limit_id || ' ' || one.key)) AS places, array_agg(one.cost) AS costs
            FROM unnest(uses) AS one GROUP BY one.place, one.job_id ORDER BY one.place
        LOOP
            job_id := job.job_id;
            taken_at := instant;
            is_granted := true;
            FOR each IN 1 .. cardinality(job.places) LOOP
                is_granted := is_granted AND rooms[job.places[each]] >= job.costs[each];
            END LOOP;
            IF is_granted THEN
                FOR each IN 1 .. cardinality(job.places) LOOP
                    rooms[job.places[each]] := rooms[job.places[each]] - job.costs[each];
                    spent[job.places[each]] := spent[job.places[each]] + job.costs[each];
                END LOOP;
            END IF;
            RETURN NEXT;
        END LOOP;
    END IF;
    UPDATE mainspring.rates
    SET latest = after.latest, level = after.level, taken_at = after.taken_at, taken = after.taken
    FROM unnest(wanted) AS one
    JOIN mainspring.limits ON limits.id = one.limit_id
    JOIN mainspring.rates AS before ON before.limit_id = one.limit_id AND before.key = one.key
    CROSS JOIN LATERAL (SELECT array_position(buckets, one.limit_id || ' ' || one.key) AS place) AS at
    CROSS JOIN LATERAL mainspring.rate_spent(limits, before, instant, levels[at.place], spent[at.place]) AS after
    WHERE rates.limit_id = one.limit_id AND rates.key = one.key AND spent[at.place] > 0;
END;
$$;

-- Lock a queue for a release, as lock_queue_credit did. `most` is how much of the window is to be used (NULL: all of it).
-- A queue has lines when jobs of it can be under limits that others of it are not: then its jobs are released line by
-- line; `has_waiting`: there are some in lines. `age` is how long its jobs have been in the broker, in seconds on average, but for what was sent long ago.
CREATE FUNCTION mainspring.lock_queue(
    wanted text, most integer,
    OUT credit integer, OUT age double precision, OUT has_lines boolean, OUT has_waiting boolean,
    OUT is_fair boolean, OUT fair_weights jsonb, OUT aging interval
) RETURNS SETOF record LANGUAGE plpgsql ROWS 1 AS $$
DECLARE
    release_window integer;
    own_limit integer;
    in_broker integer;
BEGIN
    SELECT
        queues.release_window, queues.fair_by IS NOT NULL, queues.fair_weights, make_interval(secs => queues.aging_seconds)
    INTO release_window, is_fair, fair_weights, aging
    FROM mainspring.queues
    WHERE queues.name = wanted AND NOT queues.paused AND queues.backs_off_until <= clock_timestamp()
    FOR UPDATE SKIP LOCKED;
    IF NOT found THEN
        RETURN;
    END IF;
    -- The release needn't wait for the disk. What rests on it (the claim) is later in the same log, so nothing durable
    -- outlives it; if a crash loses it, its message names a ticket that the next release gives out again.
    PERFORM set_config('synchronous_commit', 'off', true);
    SELECT
        count(*), extract(epoch FROM avg(clock_timestamp() - live_jobs.released_at) FILTER (
            WHERE live_jobs.released_at > clock_timestamp() - interval '2 s'
        ))
    INTO in_broker, age
    FROM mainspring.live_jobs WHERE live_jobs.queue = wanted AND live_jobs.state IN ('enqueued', 'admitted');
    credit := least(release_window, lock_queue.most) - in_broker;
    SELECT limits.most INTO own_limit FROM mainspring.limits WHERE limits.queue = wanted AND limits.kind = 'concurrency';
    IF own_limit IS NOT NULL THEN
        credit := least(credit, own_limit - in_broker - (
            SELECT count(*) FROM mainspring.live_jobs WHERE live_jobs.queue = wanted AND live_jobs.state = 'running'
        ));
    END IF;
    credit := greatest(credit, 0);
    has_waiting := EXISTS (
        SELECT FROM mainspring.live_jobs
        WHERE live_jobs.queue = wanted AND live_jobs.state = 'blocked' AND live_jobs.line IS NOT NULL
    );
    has_lines := is_fair OR has_waiting
        OR EXISTS (SELECT FROM mainspring.limits WHERE limits.name IS NOT NULL AND wanted = ANY (limits.queues))
        OR EXISTS (
            SELECT FROM mainspring.limits CROSS JOIN unnest(limits.tasks) AS limited (task)
            JOIN mainspring.tasks ON tasks.name = limited.task AND tasks.queue = wanted
        );
    RETURN NEXT;
END;
$$;

-- The order in which due jobs are released: ranges of due times within a priority. A job of priority 5 that has waited for
-- twice the aging time comes with those of priority 3, and before them, since it is older.
CREATE FUNCTION mainspring.release_order(aging interval, now timestamptz)
RETURNS TABLE (place bigint, priority integer, due_after timestamptz, due_until timestamptz) LANGUAGE sql IMMUTABLE ROWS 55
AS $$
    SELECT
        row_number() OVER (ORDER BY rank.rank, gained.gained DESC), rank.rank + gained.gained,
        CASE WHEN rank.rank = 0 OR aging IS NULL THEN '-infinity' ELSE now - aging * (gained.gained + 1) END,
        CASE WHEN gained.gained = 0 THEN now ELSE now - aging * gained.gained END
    FROM generate_series(0, 9) AS rank (rank)
    CROSS JOIN LATERAL generate_series(0, CASE WHEN aging IS NULL THEN 0 ELSE 9 - rank.rank END) AS gained (gained)
    ORDER BY 1
$$;

-- The lines of a queue in which jobs wait, by priority: of each priority the first `most` after a line, and then from the
-- start, so that all have their turn however many there are.
CREATE FUNCTION mainspring.lines_of(wanted text, after text [], most integer)
RETURNS TABLE (priority smallint, line text, job_id uuid, task text, due_at timestamptz)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    begin_after text;
    last text;
    seen integer;
    is_around boolean;
    head record;
BEGIN
    FOR level IN 0 .. 9 LOOP
        begin_after := coalesce(after[level + 1], '');
        last := begin_after;
        is_around := begin_after = '';
        seen := 0;
        WHILE seen < most LOOP
            SELECT job.priority, job.line, job.id, job.task, job.due_at INTO head
            FROM mainspring.live_jobs AS job
            WHERE job.queue = wanted AND job.priority = level AND job.state = 'blocked' AND job.line IS NOT NULL
                AND job.line > last COLLATE "C"
            ORDER BY job.line, job.due_at, job.id
            LIMIT 1;
            IF NOT found OR (is_around AND begin_after <> '' AND head.line > begin_after COLLATE "C") THEN
                EXIT WHEN is_around;
                is_around := true;
                last := '';
                CONTINUE;
            END IF;
            priority := head.priority;
            line := head.line;
            job_id := head.id;
            task := head.task;
            due_at := head.due_at;
            RETURN NEXT;
            seen := seen + 1;
            last := head.line;
        END LOOP;
    END LOOP;
END;
$$;

-- Refuse a submit of so many jobs when more than `most` would wait then. Only as many are counted. No lock is taken, so
-- submits of one instant don't see each other.
CREATE FUNCTION mainspring.refuse_full_queue(wanted text, added integer, most integer) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
    waiting integer;
BEGIN
    SELECT count(*) INTO waiting FROM (
        SELECT FROM mainspring.live_jobs
        WHERE live_jobs.queue = wanted AND live_jobs.state IN ('scheduled', 'blocked') LIMIT most
    ) AS found;
    IF waiting + added > most THEN
        RAISE EXCEPTION 'queue % is full', wanted
            USING ERRCODE = 'MS429', DETAIL = format('at least %s jobs wait in it, and %s may', waiting, most);
    END IF;
END;
$$;

-- As before, with the queue's expiry.
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
    SELECT
        queues.default_priority, queues.default_timeout_seconds, queues.default_retry,
        make_interval(secs => queues.default_expiry_seconds) AS default_expiry, queues.most_waiting
    INTO lane
    FROM mainspring.queues WHERE queues.name = its_queue;
    IF lane.most_waiting IS NOT NULL THEN
        PERFORM mainspring.refuse_full_queue(its_queue, 1, lane.most_waiting);
    END IF;
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
        coalesce(submit.expires_at, starts + lane.default_expiry), (its_retry ->> 'max_attempts')::integer,
        coalesce(submit.timeout_seconds, entry.timeout_seconds, lane.default_timeout_seconds, 300), submit.idempotency_key
    );
    PERFORM pg_notify('mainspring_due', its_queue);
    RETURN job_id;
END;
$$;

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'mainspring_read') THEN
        GRANT SELECT ON mainspring.rates TO mainspring_read;
    END IF;
END;
$$;
