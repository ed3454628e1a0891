-- name: claim
-- Total: every reference gets a verdict. Rows are locked in the order of their ids, and judged as the lock
-- returned them. A claim that is asked again with its id renews nothing but the lease and answers the same.
WITH asked AS MATERIALIZED (
    SELECT a.id, a.ticket FROM unnest($1::uuid[], $2::bigint[]) AS a (id, ticket) ORDER BY a.id
),
locked AS MATERIALIZED (
    SELECT asked.ticket, job.*
    FROM asked
    CROSS JOIN LATERAL (
        SELECT id, queue, task, state, fence, claim_id, expires_at, idempotency_key
        FROM mainspring.live_jobs WHERE live_jobs.id = asked.id FOR UPDATE
    ) AS job
),
sorted AS MATERIALIZED (
    SELECT
        locked.id, locked.ticket, locked.queue, locked.task,
        CASE
            WHEN locked.claim_id = $3 THEN 'claimed'
            WHEN locked.fence <> locked.ticket OR locked.state NOT IN ('enqueued', 'admitted', 'retrying') THEN 'stale'
            WHEN locked.expires_at <= clock_timestamp() THEN 'expired'
            WHEN complete.is_complete THEN 'duplicate'
            WHEN queues.paused THEN 'paused'
            WHEN concurrency.is_shut THEN 'circuit'
            WHEN locked.state <> 'admitted' AND concurrency.is_limited THEN 'limited'
            WHEN NOT locked.task = ANY ($6::text[]) THEN
                CASE WHEN EXISTS (
                    SELECT FROM mainspring.workers
                    WHERE locked.queue = ANY (workers.queues) AND locked.task = ANY (workers.tasks)
                        AND workers.beat_at > (SELECT clock_timestamp()) - $10::interval
                ) THEN 'unknown_task' ELSE 'no_worker' END
            ELSE 'start'
        END AS verdict
    FROM locked
    -- The LIMIT keeps this a look-up for each row: flattened, it could become a scan of all completions.
    LEFT JOIN LATERAL (
        SELECT true AS is_complete FROM mainspring.completions
        WHERE completions.idempotency_key = coalesce(locked.idempotency_key, locked.id::text)
        LIMIT 1
    ) AS complete ON true
    LEFT JOIN mainspring.queues ON queues.name = locked.queue
    CROSS JOIN LATERAL (
        SELECT count(*) > 0 AS is_limited, bool_or(limits.shut_until > clock_timestamp()) AS is_shut
        FROM mainspring.limits
        WHERE limits.kind = 'concurrency'
            AND (limits.queue = locked.queue OR locked.queue = ANY (limits.queues) OR locked.task = ANY (limits.tasks))
    ) AS concurrency
),
-- Tokens are taken last, for jobs that start.
starting AS MATERIALIZED (
    SELECT array_agg(sorted.id ORDER BY sorted.id) AS ids FROM sorted
    WHERE sorted.verdict = 'start' AND EXISTS (
        SELECT FROM mainspring.limits
        WHERE limits.kind = 'rate' AND (sorted.queue = ANY (limits.queues) OR sorted.task = ANY (limits.tasks))
    )
),
rated AS MATERIALIZED (
    SELECT tokens.* FROM starting CROSS JOIN LATERAL mainspring.take_tokens(starting.ids) AS tokens
    WHERE starting.ids IS NOT NULL
),
judged AS MATERIALIZED (
    SELECT
        sorted.id, sorted.ticket,
        CASE
            WHEN sorted.verdict <> 'start' THEN sorted.verdict WHEN rated.is_granted IS FALSE THEN 'rate' ELSE 'claimed'
        END AS verdict
    FROM sorted LEFT JOIN rated ON rated.job_id = sorted.id
),
claimed AS (
    UPDATE mainspring.live_jobs
    SET
        state = 'running',
        attempt = attempt + CASE WHEN claim_id = $3 THEN 0 ELSE 1 END,
        attempts_used = attempts_used + CASE WHEN claim_id = $3 THEN 0 ELSE 1 END,
        fence = fence + CASE WHEN claim_id = $3 THEN 0 ELSE 1 END,
        claim_id = $3,
        lease_until = clock_timestamp() + $4::interval,
        worker = $5,
        -- The instant at which tokens were taken, one for all, is the start that a rate counts.
        started_at = CASE
            WHEN claim_id = $3 THEN started_at ELSE coalesce((SELECT max(taken_at) FROM rated), clock_timestamp())
        END,
        reason = NULL
    WHERE id = ANY (ARRAY(SELECT judged.id FROM judged WHERE judged.verdict = 'claimed'))
    RETURNING
        id, queue, task, fence, attempt, attempts_used, hand_backs, timeout_seconds, idempotency_key, run_alone,
        schedule, started_at
),
returned AS (
    UPDATE mainspring.live_jobs
    SET state = 'scheduled', reason = judged.verdict, fence = fence + 1,
        -- What nobody knows isn't tried again and again: after half of its age, or when a worker comes that knows it. What
        -- others know comes back to them ever later, so that a few of them among many don't make it go round.
        due_at = clock_timestamp() + CASE judged.verdict
            WHEN 'no_worker' THEN
                greatest($11::interval, least($12::interval, (clock_timestamp() - mainspring.made_at(live_jobs.id)) / 2))
            WHEN 'unknown_task' THEN greatest($7::interval, least($13::interval, (clock_timestamp() - (
                SELECT job_details.run_at FROM mainspring.job_details
                WHERE job_details.id = live_jobs.id AND job_details.id BETWEEN $8::uuid AND $9::uuid
            )) / 2))
            ELSE $7::interval
        END
    FROM judged
    WHERE live_jobs.id = judged.id
        AND live_jobs.id = ANY (
            ARRAY(SELECT id FROM judged WHERE verdict IN ('paused', 'limited', 'unknown_task', 'no_worker'))
        )
    RETURNING live_jobs.id, live_jobs.fence, live_jobs.reason
),
-- No token, or its circuit is open: it waits in its line, until a release may take it.
blocked AS (
    UPDATE mainspring.live_jobs
    SET state = 'blocked', fence = fence + 1, line = mainspring.line_of(id, queue, task),
        reason = CASE WHEN id = ANY (ARRAY(SELECT judged.id FROM judged WHERE judged.verdict = 'rate')) THEN 'rate' ELSE 'circuit' END
    WHERE id = ANY (ARRAY(SELECT judged.id FROM judged WHERE judged.verdict IN ('rate', 'circuit')))
    RETURNING id, fence, reason
),
noted AS (
    INSERT INTO mainspring.events (job_id, event, fence, details)
    SELECT id, 'return', fence, jsonb_build_object('reason', reason) FROM returned
    UNION ALL
    SELECT id, 'limit', fence, jsonb_build_object('reason', reason) FROM blocked
)
SELECT
    asked.id, asked.ticket, coalesce(judged.verdict, 'absent') AS verdict,
    claimed.queue, claimed.task, claimed.fence, claimed.attempt, claimed.attempts_used, claimed.hand_backs,
    claimed.timeout_seconds, coalesce(claimed.idempotency_key, claimed.id::text) AS idempotency_key,
    claimed.run_alone, claimed.schedule, details.payload, details.retry, details.nominal_at, details.traceparent
FROM asked
LEFT JOIN judged ON judged.id = asked.id AND judged.ticket = asked.ticket
LEFT JOIN claimed ON claimed.id = judged.id AND judged.verdict = 'claimed'
LEFT JOIN LATERAL (
    -- The bounds of the batch leave out the partitions of other days before the first look-up.
    SELECT payload, retry, nominal_at, traceparent FROM mainspring.job_details
    WHERE job_details.id = claimed.id AND job_details.id BETWEEN $8::uuid AND $9::uuid
    LIMIT 1
) AS details ON true

-- name: tasks_of
SELECT id, task FROM mainspring.live_jobs WHERE id = ANY ($1::uuid[])

-- name: finished
-- Which of these have ended; the rest never existed.
SELECT id FROM mainspring.finished_jobs WHERE id = ANY ($1::uuid[])

-- name: finish_duplicates
-- The key is complete: the job ends without running.
WITH locked AS MATERIALIZED (
    SELECT job.*
    FROM (SELECT a.id, a.ticket FROM unnest($1::uuid[], $2::bigint[]) AS a (id, ticket) ORDER BY a.id) AS asked
    CROSS JOIN LATERAL (
        SELECT * FROM mainspring.live_jobs
        WHERE live_jobs.id = asked.id AND live_jobs.fence = asked.ticket
            AND live_jobs.state IN ('enqueued', 'admitted', 'retrying')
        FOR UPDATE
    ) AS job
),
gone AS (DELETE FROM mainspring.live_jobs WHERE id = ANY (ARRAY(SELECT locked.id FROM locked))),
noted AS (
    INSERT INTO mainspring.events (job_id, event, fence) SELECT id, 'duplicate', fence + 1 FROM locked
)
INSERT INTO mainspring.finished_jobs (
    id, queue, task, state, reason, priority, due_at, expires_at, fence, attempt, attempts_used, max_attempts,
    timeout_seconds, idempotency_key, schedule, backfill, started_at, finished_at
)
SELECT
    id, queue, task, 'succeeded', 'duplicate', priority, due_at, expires_at, fence + 1, attempt, attempts_used,
    max_attempts, timeout_seconds, idempotency_key, schedule, backfill, started_at, clock_timestamp()
FROM locked
RETURNING id

-- name: bury_expired
-- Not started by its expiry: dead, without an attempt.
WITH locked AS MATERIALIZED (
    SELECT job.*
    FROM (SELECT a.id, a.ticket FROM unnest($1::uuid[], $2::bigint[]) AS a (id, ticket) ORDER BY a.id) AS asked
    CROSS JOIN LATERAL (
        SELECT id, queue, task, fence FROM mainspring.live_jobs
        WHERE live_jobs.id = asked.id AND live_jobs.fence = asked.ticket
            AND live_jobs.state IN ('enqueued', 'admitted', 'retrying') AND live_jobs.expires_at <= clock_timestamp()
        FOR UPDATE
    ) AS job
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
