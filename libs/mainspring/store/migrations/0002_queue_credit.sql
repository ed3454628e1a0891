-- phase: expand
-- breaking: no

-- What each queue has in the broker, and how many slots of its limit are held.
CREATE VIEW mainspring.queue_usage AS
SELECT
    queues.name AS queue, queues.release_window, limits.most,
    (
        SELECT count(*) FROM mainspring.live_jobs WHERE live_jobs.queue = queues.name AND live_jobs.state = 'enqueued'
    ) AS enqueued,
    (
        SELECT count(*) FROM mainspring.live_jobs WHERE live_jobs.queue = queues.name AND live_jobs.state = 'admitted'
    ) AS admitted,
    CASE WHEN limits.most IS NOT NULL THEN (
        SELECT count(*) FROM mainspring.live_jobs WHERE live_jobs.queue = queues.name AND live_jobs.state = 'running'
    ) END AS running
FROM mainspring.queues
LEFT JOIN mainspring.limits ON limits.queue = queues.name AND limits.kind = 'concurrency';

-- Lock a queue for a release, and say how many of its jobs may be released now: no more than its window leaves,
-- and of a limited queue no more than there are free slots, so that little is blocked. No row: the queue is paused,
-- backs off, or another scheduler has it, which goes on to the next one instead of waiting.
-- A function, because its second statement must see what the row's previous owner committed: a single
-- statement would count under a snapshot that is older than its lock.
CREATE FUNCTION mainspring.lock_queue_credit(wanted text, OUT credit integer, OUT is_limited boolean)
RETURNS SETOF record LANGUAGE plpgsql ROWS 1 AS $$
BEGIN
    PERFORM FROM mainspring.queues
    WHERE queues.name = wanted AND NOT queues.paused AND queues.backs_off_until <= clock_timestamp()
    FOR UPDATE SKIP LOCKED;
    IF NOT found THEN
        RETURN;
    END IF;
    -- The release needn't wait for the disk. What rests on it (the claim) is later in the same log, so nothing durable
    -- outlives it; if a crash loses it, its message names a ticket that the next release gives out again.
    PERFORM set_config('synchronous_commit', 'off', true);
    RETURN QUERY
    SELECT
        greatest(0, least(
            usage.release_window - usage.enqueued - usage.admitted,
            usage.most - usage.admitted - usage.running - usage.enqueued
        ))::integer,
        usage.most IS NOT NULL
    FROM mainspring.queue_usage AS usage WHERE usage.queue = wanted;
END;
$$;
