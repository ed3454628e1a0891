-- name: succeed
-- Guarded by fence and claim id alone: they imply the state, and a predicate on the state would let stale
-- statistics turn the plan to a scan.
WITH asked AS MATERIALIZED (
    SELECT a.id, a.fence, a.claim_id, a.result
    FROM unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::jsonb[]) AS a (id, fence, claim_id, result)
    ORDER BY a.id
),
locked AS MATERIALIZED (
    SELECT asked.result, job.*, clock_timestamp() AS ended_at
    FROM asked
    CROSS JOIN LATERAL (
        SELECT * FROM mainspring.live_jobs
        WHERE live_jobs.id = asked.id AND live_jobs.fence = asked.fence AND live_jobs.claim_id = asked.claim_id
        FOR UPDATE
    ) AS job
),
completed AS (
    INSERT INTO mainspring.completions (idempotency_key, job_id, fence)
    SELECT coalesce(idempotency_key, id::text), id, fence FROM locked
    ON CONFLICT (idempotency_key) DO NOTHING
    RETURNING job_id
),
recorded AS (
    INSERT INTO mainspring.attempts (job_id, fence, attempt, outcome, worker, started_at, ended_at)
    SELECT id, fence, attempt, 'succeeded', worker, started_at, ended_at FROM locked
),
finished AS (
    INSERT INTO mainspring.finished_jobs (
        id, queue, task, state, reason, priority, due_at, expires_at, fence, attempt, attempts_used, max_attempts,
        timeout_seconds, idempotency_key, schedule, backfill, started_at, finished_at, worker, result
    )
    SELECT
        locked.id, queue, task, 'succeeded',
        CASE WHEN completed.job_id IS NULL THEN 'duplicate' END,
        priority, due_at, expires_at, fence + 1, attempt, attempts_used, max_attempts,
        timeout_seconds, idempotency_key, schedule, backfill, started_at, ended_at, worker, result
    FROM locked LEFT JOIN completed ON completed.job_id = locked.id
),
gone AS (
    DELETE FROM mainspring.live_jobs WHERE id = ANY (ARRAY(SELECT locked.id FROM locked)) RETURNING id
)
SELECT gone.id, completed.job_id IS NULL AS is_duplicate
FROM gone LEFT JOIN completed ON completed.job_id = gone.id

-- name: fail
-- Everything that an attempt can end in but success; what follows was decided before.
WITH asked AS MATERIALIZED (
    SELECT a.*
    FROM unnest(
        $1::uuid[], $2::bigint[], $3::uuid[], $4::text[], $5::text[], $6::interval[], $7::text[], $8::boolean[],
        $9::boolean[], $10::jsonb[], $11::text[], $12::text[]
    ) AS a (
        id, fence, claim_id, new_state, outcome, delay, new_reason, counts, new_run_alone, error, event, fingerprint
    )
    ORDER BY a.id
),
locked AS MATERIALIZED (
    SELECT
        asked.new_state, asked.outcome, asked.delay, asked.new_reason, asked.counts, asked.new_run_alone, asked.error,
        asked.event, asked.fingerprint, job.*, clock_timestamp() AS ended_at
    FROM asked
    CROSS JOIN LATERAL (
        SELECT * FROM mainspring.live_jobs
        WHERE live_jobs.id = asked.id AND live_jobs.fence = asked.fence AND live_jobs.claim_id = asked.claim_id
        FOR UPDATE
    ) AS job
),
recorded AS (
    INSERT INTO mainspring.attempts (job_id, fence, attempt, outcome, worker, started_at, ended_at, error)
    SELECT id, fence, attempt, outcome, worker, started_at, ended_at, error FROM locked
),
noted AS (
    INSERT INTO mainspring.events (job_id, at, event, fence, details)
    SELECT
        id, ended_at, event, fence + 1,
        jsonb_build_object('outcome', outcome, 'delay_seconds', extract(epoch FROM delay))
    FROM locked
),
letters AS (
    INSERT INTO mainspring.dead_letters (id, kind, job_id, queue, task, reason, outcome, error, fingerprint, died_at)
    SELECT
        id, 'job', id, queue, task, new_reason, outcome, error, fingerprint, ended_at
    FROM locked WHERE new_state = 'dead'
),
finished AS (
    INSERT INTO mainspring.finished_jobs (
        id, queue, task, state, priority, due_at, expires_at, fence, attempt, attempts_used, max_attempts,
        timeout_seconds, idempotency_key, schedule, backfill, started_at, finished_at, worker
    )
    SELECT
        id, queue, task, 'cancelled', priority, due_at, expires_at, fence + 1, attempt, attempts_used, max_attempts,
        timeout_seconds, idempotency_key, schedule, backfill, started_at, ended_at, worker
    FROM locked WHERE new_state = 'cancelled'
),
gone AS (
    DELETE FROM mainspring.live_jobs
    WHERE id = ANY (ARRAY(SELECT locked.id FROM locked WHERE locked.new_state = 'cancelled'))
    RETURNING id, fence + 1 AS fence
),
changed AS (
    UPDATE mainspring.live_jobs
    SET
        state = locked.new_state,
        reason = locked.new_reason,
        fence = live_jobs.fence + 1,
        due_at = locked.ended_at + locked.delay,
        attempts_used = live_jobs.attempts_used - CASE WHEN locked.counts THEN 0 ELSE 1 END,
        -- A failure that doesn't count is no hand-back, and still the job has begun.
        hand_backs = CASE
            WHEN locked.outcome IN ('handed_back', 'snoozed') THEN live_jobs.hand_backs + 1
            WHEN locked.counts THEN 0
            ELSE greatest(live_jobs.hand_backs, 1)
        END,
        run_alone = locked.new_run_alone,
        finished_at = CASE WHEN locked.new_state = 'dead' THEN locked.ended_at END,
        claim_id = NULL,
        lease_until = NULL,
        cancel_requested = false
    FROM locked
    WHERE live_jobs.id = locked.id
        AND live_jobs.id = ANY (ARRAY(SELECT one.id FROM locked AS one WHERE one.new_state <> 'cancelled'))
    RETURNING live_jobs.id, live_jobs.fence
)
SELECT id, fence FROM changed
UNION ALL
SELECT id, fence FROM gone

-- name: guard_handler_transaction
-- One round trip: the isolation that the handler left, and timeouts that bound a frozen runner from here on.
SELECT
    current_setting('transaction_isolation') AS isolation,
    set_config('idle_in_transaction_session_timeout', '10s', true) AS idle,
    set_config('tcp_user_timeout', '10s', true) AS tcp
