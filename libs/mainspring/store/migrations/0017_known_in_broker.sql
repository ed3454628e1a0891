-- phase: expand
-- breaking: no

-- Lock a queue for a release, as before, without counting what is in the broker where that can't matter: a count looks at
-- each row, 16 ms for 25,000. `known` jobs were there when the outbox's last id was `known_at`; since then there can have
-- come `batch_size` for each id that was given out, for whatever queue. While that leaves half of the window, it is what
-- the credit is reckoned by, and `counted_at` and `age` are NULL; else `in_broker` jobs are counted.
CREATE FUNCTION mainspring.lock_queue(
    wanted text, most integer, known integer, known_at bigint, batch_size integer,
    OUT credit integer, OUT age double precision, OUT has_lines boolean, OUT has_waiting boolean,
    OUT is_fair boolean, OUT fair_weights jsonb, OUT aging interval, OUT in_broker integer, OUT counted_at bigint
) RETURNS SETOF record LANGUAGE plpgsql ROWS 1 AS $$
DECLARE
    now timestamptz;
    release_window integer;
    own_limit integer;
    is_limited boolean;
    synchronous_commit text;
BEGIN
    SELECT
        least(queues.release_window, lock_queue.most), queues.fair_by IS NOT NULL, queues.fair_weights,
        make_interval(secs => queues.aging_seconds)
    INTO release_window, is_fair, fair_weights, aging
    FROM mainspring.queues
    WHERE queues.name = wanted AND NOT queues.paused AND queues.backs_off_until <= clock_timestamp()
    FOR UPDATE SKIP LOCKED;
    IF NOT found THEN
        RETURN;
    END IF;
    now := clock_timestamp();
    SELECT
        (SELECT limits.most FROM mainspring.limits WHERE limits.queue = wanted AND limits.kind = 'concurrency'),
        (
            SELECT true FROM mainspring.live_jobs
            WHERE live_jobs.queue = wanted AND live_jobs.state = 'blocked' AND live_jobs.line IS NOT NULL
            LIMIT 1
        ) IS TRUE,
        EXISTS (SELECT FROM mainspring.limits WHERE limits.name IS NOT NULL AND wanted = ANY (limits.queues))
        OR EXISTS (
            SELECT FROM mainspring.limits CROSS JOIN unnest(limits.tasks) AS limited (task)
            JOIN mainspring.tasks ON tasks.name = limited.task AND tasks.queue = wanted
        ),
        CASE WHEN last.is_called THEN last.last_value ELSE 0 END,
        -- The release needn't wait for the disk. What rests on it (the claim) is later in the same log, so nothing durable
        -- outlives it; if a crash loses it, its message names a ticket that the next release gives out again.
        set_config('synchronous_commit', 'off', true)
    INTO own_limit, has_waiting, is_limited, counted_at, synchronous_commit
    FROM mainspring.outbox_id_seq AS last;
    in_broker := known + (counted_at - known_at) * batch_size;
    IF in_broker <= release_window / 2 AND own_limit IS NULL THEN
        counted_at := NULL;
    ELSE
        SELECT
            count(*), date_part('epoch', now) - avg(date_part('epoch', live_jobs.released_at)) FILTER (
                WHERE live_jobs.released_at > now - interval '2 s'
            )
        INTO in_broker, age
        FROM mainspring.live_jobs WHERE live_jobs.queue = wanted AND live_jobs.state IN ('enqueued', 'admitted');
    END IF;
    credit := release_window - in_broker;
    IF own_limit IS NOT NULL THEN
        credit := least(credit, own_limit - in_broker - (
            SELECT count(*) FROM mainspring.live_jobs WHERE live_jobs.queue = wanted AND live_jobs.state = 'running'
        ));
    END IF;
    credit := greatest(credit, 0);
    has_lines := is_fair OR has_waiting OR is_limited;
    RETURN NEXT;
END;
$$;
