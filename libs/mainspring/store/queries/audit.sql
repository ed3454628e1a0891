-- What must never be, looked for where it would have been made lately: each check reads a few index entries, or the
-- last thousand attempts. Each takes a patience and answers with up to twenty jobs (or none) and what it concerns.

-- name: lease_overdue
SELECT id AS job_id, queue AS subject FROM mainspring.live_jobs
WHERE state = 'running' AND lease_until < (SELECT clock_timestamp()) - $1::interval
LIMIT 20

-- name: due_and_not_released
-- The first of each priority; a queue that has something in the broker is at work.
SELECT first.id AS job_id, queues.name || ', ' || first.state AS subject
FROM mainspring.queues
JOIN mainspring.queue_usage AS usage ON usage.queue = queues.name
CROSS JOIN generate_series(0, 9) AS levels (priority)
CROSS JOIN LATERAL (
    SELECT id, state FROM mainspring.live_jobs
    WHERE live_jobs.queue = queues.name AND live_jobs.priority = levels.priority
        AND live_jobs.state IN ('scheduled', 'blocked')
        AND live_jobs.due_at < (SELECT clock_timestamp()) - $1::interval
        -- A limit may keep it in its line for as long as it likes.
        AND (live_jobs.line IS NULL OR live_jobs.state = 'scheduled')
    ORDER BY live_jobs.due_at
    LIMIT 1
) AS first
WHERE NOT queues.paused AND queues.backs_off_until < (SELECT clock_timestamp()) - $1::interval
    AND usage.enqueued + usage.admitted = 0
    AND NOT EXISTS (
        SELECT FROM mainspring.live_jobs WHERE live_jobs.queue = queues.name AND live_jobs.state = 'running'
    )
LIMIT 20

-- name: unclaimed_and_not_sent_again
SELECT live_jobs.id AS job_id, live_jobs.queue AS subject
FROM mainspring.live_jobs
JOIN mainspring.queues ON queues.name = live_jobs.queue AND NOT queues.paused
WHERE live_jobs.state IN ('enqueued', 'admitted') AND live_jobs.rechecks = 0
    AND live_jobs.released_at < (SELECT clock_timestamp()) - $1::interval
LIMIT 20

-- name: retry_overdue
SELECT id AS job_id, queue AS subject FROM mainspring.live_jobs
WHERE state = 'retrying' AND due_at < (SELECT clock_timestamp()) - $1::interval
LIMIT 20

-- name: expiry_overdue
SELECT id AS job_id, queue AS subject FROM mainspring.live_jobs
WHERE expires_at IS NOT NULL AND expires_at < (SELECT clock_timestamp()) - $1::interval
    AND state IN ('scheduled', 'blocked', 'enqueued', 'admitted', 'retrying')
LIMIT 20

-- name: outbox_overdue
SELECT NULL::uuid AS job_id, queue AS subject FROM mainspring.outbox
WHERE created_at < (SELECT clock_timestamp()) - $1::interval
LIMIT 20

-- name: schedule_overdue
SELECT NULL::uuid AS job_id, name AS subject FROM mainspring.schedules
WHERE NOT paused AND broken IS NULL AND fires_at < (SELECT clock_timestamp()) - $1::interval
LIMIT 20

-- name: alert_overdue
SELECT job_id, coalesce(task, kind) AS subject FROM mainspring.dead_letters
WHERE alerted_at IS NULL AND died_at < (SELECT clock_timestamp()) - $1::interval
LIMIT 20

-- name: success_without_job
-- Of the last attempts that succeeded: the job has not ended so.
WITH lately AS MATERIALIZED (
    SELECT job_id, fence, outcome, ended_at FROM mainspring.attempts ORDER BY xact DESC LIMIT 1000
)
SELECT lately.job_id, 'fence ' || lately.fence AS subject FROM lately
WHERE lately.outcome = 'succeeded' AND lately.ended_at < (SELECT clock_timestamp()) - $1::interval
    AND NOT EXISTS (
        SELECT FROM mainspring.finished_jobs
        WHERE finished_jobs.id = lately.job_id AND finished_jobs.state = 'succeeded'
    )
LIMIT 20

-- name: success_without_completion
WITH lately AS MATERIALIZED (
    SELECT job_id, outcome, ended_at FROM mainspring.attempts ORDER BY xact DESC LIMIT 1000
)
SELECT lately.job_id, finished.task AS subject
FROM lately
CROSS JOIN LATERAL (
    SELECT task, idempotency_key FROM mainspring.finished_jobs WHERE finished_jobs.id = lately.job_id LIMIT 1
) AS finished
WHERE lately.outcome = 'succeeded' AND lately.ended_at < (SELECT clock_timestamp()) - $1::interval
    AND NOT EXISTS (
        SELECT FROM mainspring.completions
        WHERE completions.idempotency_key = coalesce(finished.idempotency_key, lately.job_id::text)
    )
LIMIT 20

-- name: dead_without_letter
WITH lately AS MATERIALIZED (
    SELECT job_id, outcome, ended_at FROM mainspring.attempts ORDER BY xact DESC LIMIT 1000
)
SELECT lately.job_id, dead.task AS subject
FROM lately
CROSS JOIN LATERAL (
    SELECT task FROM mainspring.live_jobs
    WHERE live_jobs.id = lately.job_id AND live_jobs.state = 'dead' AND live_jobs.reason <> 'discarded'
) AS dead
WHERE lately.outcome <> 'succeeded' AND lately.ended_at < (SELECT clock_timestamp()) - $1::interval
    AND NOT EXISTS (SELECT FROM mainspring.dead_letters WHERE dead_letters.job_id = lately.job_id)
LIMIT 20

-- name: live_and_finished
WITH lately AS MATERIALIZED (SELECT job_id, ended_at FROM mainspring.attempts ORDER BY xact DESC LIMIT 1000)
SELECT lately.job_id, live_jobs.state AS subject
FROM lately
JOIN mainspring.live_jobs ON live_jobs.id = lately.job_id
WHERE lately.ended_at < (SELECT clock_timestamp()) - $1::interval
    AND EXISTS (SELECT FROM mainspring.finished_jobs WHERE finished_jobs.id = lately.job_id)
LIMIT 20

-- name: attempt_of_a_later_fence
WITH lately AS MATERIALIZED (SELECT job_id, fence, ended_at FROM mainspring.attempts ORDER BY xact DESC LIMIT 1000)
SELECT lately.job_id, 'attempt ' || lately.fence || ', job ' || live_jobs.fence AS subject
FROM lately
JOIN mainspring.live_jobs ON live_jobs.id = lately.job_id AND live_jobs.fence <= lately.fence
WHERE lately.ended_at < (SELECT clock_timestamp()) - $1::interval
LIMIT 20

-- name: released_without_details
WITH released AS MATERIALIZED (
    SELECT id, queue FROM mainspring.live_jobs
    WHERE state IN ('enqueued', 'admitted') AND released_at < (SELECT clock_timestamp()) - $1::interval
    LIMIT 500
)
SELECT released.id AS job_id, released.queue AS subject FROM released
WHERE NOT EXISTS (SELECT FROM mainspring.job_details WHERE job_details.id = released.id)
LIMIT 20

-- name: fire_without_job
SELECT fired.job_id, schedules.name AS subject
FROM mainspring.schedules
CROSS JOIN LATERAL (
    SELECT job_id, recorded_at FROM mainspring.fires
    WHERE fires.schedule = schedules.name ORDER BY nominal_at DESC LIMIT 3
) AS fired
WHERE fired.job_id IS NOT NULL AND fired.recorded_at < (SELECT clock_timestamp()) - $1::interval
    AND fired.recorded_at > (SELECT clock_timestamp()) - interval '1 hour'
    AND NOT EXISTS (SELECT FROM mainspring.job_details WHERE job_details.id = fired.job_id)
LIMIT 20

-- name: row_outside_partitions
-- Retention drops partitions: what lies in a default one stays for ever.
SELECT NULL::uuid AS job_id, subject
FROM (
    SELECT 'finished_jobs' AS subject WHERE EXISTS (SELECT FROM mainspring.finished_jobs_default)
    UNION ALL SELECT 'attempts' WHERE EXISTS (SELECT FROM mainspring.attempts_default)
    UNION ALL SELECT 'events' WHERE EXISTS (SELECT FROM mainspring.events_default)
) AS outside
WHERE $1::interval IS NOT NULL

-- name: partition_of_tomorrow_missing
SELECT NULL::uuid AS job_id, wanted.name AS subject
FROM unnest(ARRAY['job_details', 'finished_jobs', 'attempts', 'events']) AS parent,
    LATERAL (SELECT parent || to_char((clock_timestamp() + $1::interval) AT TIME ZONE 'UTC', '_YYYYMMDD') AS name) AS wanted
WHERE to_regclass('mainspring.' || wanted.name) IS NULL

-- name: note
INSERT INTO mainspring.events (job_id, event, author, details)
SELECT a.job_id, 'audit', 'auditor', jsonb_build_object('check', a.name, 'subject', a.subject)
FROM unnest($1::uuid[], $2::text[], $3::text[]) AS a (job_id, name, subject)
