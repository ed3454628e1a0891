-- name: epoch
SELECT epoch, topology_version, clock_timestamp() - changed_at AS age FROM mainspring.broker_epoch

-- name: change_epoch
-- Compare and set: of many schedulers that noticed, one goes on.
UPDATE mainspring.broker_epoch
SET epoch = $2, topology_version = $3, changed_at = clock_timestamp()
WHERE epoch = $1
RETURNING epoch

-- name: reschedule_forgotten
-- Every job that the old broker held, some thousands at a time: those released before the epoch changed, and
-- those that wait in the ladder. Of one queue that was gone ($3) those that were released into it.
WITH locked AS MATERIALIZED (
    SELECT picked.id FROM (
        SELECT id FROM mainspring.live_jobs
        WHERE state IN ('enqueued', 'admitted') AND released_at <= $1::timestamptz
            AND ($3::text IS NULL OR queue = $3::text)
        LIMIT $2
        FOR UPDATE SKIP LOCKED
    ) AS picked
    UNION ALL
    SELECT waiting.id FROM (
        SELECT id FROM mainspring.live_jobs
        WHERE state = 'retrying' AND $3::text IS NULL
        LIMIT $2
        FOR UPDATE SKIP LOCKED
    ) AS waiting
),
moved AS (
    UPDATE mainspring.live_jobs
    SET state = 'scheduled', reason = 'reconciled', fence = fence + 1, due_at = greatest(due_at, clock_timestamp())
    WHERE id = ANY (ARRAY(SELECT locked.id FROM locked))
    RETURNING id, fence
),
noted AS (
    INSERT INTO mainspring.events (job_id, event, fence) SELECT id, 'reconcile', fence FROM moved
)
SELECT count(*) FROM moved

-- name: now
SELECT clock_timestamp()

-- name: reschedule_retries
-- Retries whose ladder message is missing: due for a while, and nobody came.
WITH locked AS MATERIALIZED (
    SELECT live_jobs.id FROM mainspring.live_jobs
    WHERE live_jobs.state = 'retrying' AND live_jobs.due_at < (SELECT clock_timestamp()) - $1::interval
    ORDER BY live_jobs.due_at
    LIMIT 500
    FOR UPDATE SKIP LOCKED
),
moved AS (
    UPDATE mainspring.live_jobs
    SET state = 'scheduled', reason = 'ladder_message_missing', fence = fence + 1, due_at = clock_timestamp()
    WHERE id = ANY (ARRAY(SELECT locked.id FROM locked))
    RETURNING id, fence
),
noted AS (
    INSERT INTO mainspring.events (job_id, event, fence) SELECT id, 'reschedule', fence FROM moved
)
SELECT count(*) FROM moved

-- name: bury_overdue
-- Waiting jobs whose expiry has passed, whatever they wait for.
WITH locked AS MATERIALIZED (
    SELECT live_jobs.id, live_jobs.queue, live_jobs.task, live_jobs.fence FROM mainspring.live_jobs
    WHERE live_jobs.expires_at IS NOT NULL AND live_jobs.expires_at <= (SELECT clock_timestamp())
        AND live_jobs.state IN ('scheduled', 'blocked', 'enqueued', 'admitted', 'retrying')
    ORDER BY live_jobs.expires_at
    LIMIT 500
    FOR UPDATE SKIP LOCKED
),
letters AS (
    INSERT INTO mainspring.dead_letters (id, kind, job_id, queue, task, reason, fingerprint)
    SELECT id, 'job', id, queue, task, 'expired', 'expired:' || task FROM locked
),
noted AS (
    INSERT INTO mainspring.events (job_id, event, fence) SELECT id, 'expire', fence + 1 FROM locked
)
UPDATE mainspring.live_jobs
SET state = 'dead', reason = 'expired', fence = fence + 1, finished_at = clock_timestamp()
WHERE id = ANY (ARRAY(SELECT locked.id FROM locked))
RETURNING id, queue, fence

-- name: take_unclaimed
-- Sent and not claimed: after 60 s, then 120 s more, doubling to an hour. The ticket stays the same, so a
-- second copy changes nothing. Not while the queue is paused: nobody may claim it then.
WITH late AS MATERIALIZED (
    SELECT live_jobs.id FROM mainspring.live_jobs
    JOIN mainspring.queues ON queues.name = live_jobs.queue AND NOT queues.paused
    WHERE live_jobs.state IN ('enqueued', 'admitted')
        -- The least of the waits, which the index knows: jobs that were sent just now are not looked at.
        AND live_jobs.released_at < (SELECT clock_timestamp()) - $1::interval
        AND live_jobs.released_at < (SELECT clock_timestamp())
            - least($1::interval * (power(2, live_jobs.rechecks + 1) - 1), interval '1 hour' * (live_jobs.rechecks + 1))
    LIMIT 500
    FOR UPDATE OF live_jobs SKIP LOCKED
)
UPDATE mainspring.live_jobs SET rechecks = least(rechecks + 1, 20)
WHERE id = ANY (ARRAY(SELECT late.id FROM late))
RETURNING id, queue, state, fence

-- name: rescheduled_since
SELECT count(*) FROM mainspring.events WHERE event = 'reconcile' AND at >= $1::timestamptz
