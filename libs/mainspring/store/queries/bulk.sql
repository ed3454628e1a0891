-- name: live
-- Jobs that have not ended and pass the filters, by id, behind one id and below another.
SELECT job.id, job.state, NULL::timestamptz AS died_at
FROM mainspring.live_jobs AS job
WHERE job.id > $1 AND job.id >= $2 AND job.id < $3 AND job.state = ANY ($4::text[])
    AND ($5::text IS NULL OR job.queue = $5)
    AND ($6::text IS NULL OR job.task = $6)
    AND ($7::text IS NULL OR job.schedule = $7)
    AND (
        $8::text IS NULL
        OR (SELECT details.tags @> ARRAY[$8::text] FROM mainspring.job_details AS details WHERE details.id = job.id LIMIT 1)
    )
ORDER BY job.id
LIMIT $9

-- name: dead
-- Dead letters that pass the filters, those that died first first, behind one of them.
SELECT letter.id, letter.kind AS state, letter.died_at
FROM mainspring.dead_letters AS letter
WHERE ($1 OR letter.kind = 'job')
    AND letter.died_at >= coalesce($2::timestamptz, '-infinity') AND letter.died_at < $3
    AND ($4::text IS NULL OR letter.queue = $4)
    AND ($5::text IS NULL OR letter.task = $5)
    AND ($6::text IS NULL OR letter.reason = $6)
    AND ($7::text IS NULL OR letter.fingerprint = $7)
    AND (letter.died_at, letter.id) > (coalesce($8::timestamptz, '-infinity'), $9::uuid)
ORDER BY letter.died_at, letter.id
LIMIT $10

-- name: lock_letters
-- In the order in which everybody locks them; before the jobs behind them.
SELECT id FROM mainspring.dead_letters WHERE id = ANY ($1::uuid[]) ORDER BY died_at, id FOR UPDATE

-- name: start
INSERT INTO mainspring.bulk_operations (
    id, action, filter, priority, per_second, canary, most_failures, note, author, created_at, matched
) VALUES ($1, $2, $3::jsonb, $4, $5, $6::double precision[], $7, $8, $9, $10, $11)
RETURNING *, 0 AS pending

-- name: running
SELECT count(*) FROM mainspring.bulk_operations WHERE state = 'running'

-- name: newest
SELECT *, (SELECT count(*) FROM mainspring.canary_jobs WHERE operation = bulk_operations.id) AS pending
FROM mainspring.bulk_operations
ORDER BY created_at DESC, id DESC
LIMIT $1

-- name: get
SELECT *, (SELECT count(*) FROM mainspring.canary_jobs WHERE operation = bulk_operations.id) AS pending
FROM mainspring.bulk_operations WHERE id = $1

-- name: take
-- The next that is due; whoever holds it does its next part alone.
SELECT *, (SELECT count(*) FROM mainspring.canary_jobs WHERE operation = bulk_operations.id) AS pending
FROM mainspring.bulk_operations
WHERE state = 'running' AND id > $1 AND next_at <= (SELECT clock_timestamp())
ORDER BY id
LIMIT 1
FOR UPDATE SKIP LOCKED

-- name: judge
-- What has become of the canary's jobs: their first attempt since then that says something, or they are gone without one.
WITH judged AS (
    SELECT canary.job_id, first.outcome
    FROM mainspring.canary_jobs AS canary
    LEFT JOIN LATERAL (
        SELECT attempts.outcome FROM mainspring.attempts
        WHERE attempts.job_id = canary.job_id AND attempts.fence > canary.fence AND attempts.ended_at >= $2
            AND attempts.outcome NOT IN ('handed_back', 'snoozed')
        ORDER BY attempts.fence
        LIMIT 1
    ) AS first ON true
    WHERE canary.operation = $1 AND (
        first.outcome IS NOT NULL
        OR NOT EXISTS (SELECT FROM mainspring.live_jobs WHERE live_jobs.id = canary.job_id AND live_jobs.state <> 'dead')
    )
),
gone AS (
    DELETE FROM mainspring.canary_jobs
    WHERE operation = $1 AND job_id = ANY (ARRAY(SELECT judged.job_id FROM judged))
)
SELECT
    count(*) FILTER (WHERE outcome = 'succeeded') AS succeeded,
    count(*) FILTER (WHERE outcome IN ('failed', 'timed_out', 'worker_lost')) AS failed,
    count(*) AS judged
FROM judged

-- name: watch
INSERT INTO mainspring.canary_jobs (operation, job_id, fence)
SELECT $1, id, fence FROM mainspring.live_jobs WHERE id = ANY ($2::uuid[])

-- name: go_on
UPDATE mainspring.bulk_operations
SET taken = taken + $2, missed = missed + $3, step = $4, succeeded = succeeded + $5, failed = failed + $6, reached = $7,
    reached_at = $8, next_at = clock_timestamp() + make_interval(secs => $9)
WHERE id = $1

-- name: finish
WITH gone AS (DELETE FROM mainspring.canary_jobs WHERE operation = $1)
UPDATE mainspring.bulk_operations SET state = $2, reason = $3, finished_at = clock_timestamp()
WHERE id = $1 AND state = 'running'
RETURNING id

-- name: next_in
SELECT extract(epoch FROM min(next_at) - clock_timestamp())::double precision AS seconds
FROM mainspring.bulk_operations WHERE state = 'running'
