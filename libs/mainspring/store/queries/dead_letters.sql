-- name: record_message
-- A message that no job stands behind; its raw body is kept. Recorded once for each body and reason.
INSERT INTO mainspring.dead_letters (id, kind, queue, reason, error, fingerprint, body)
VALUES ($1, 'message', $2, $3, $4::jsonb, 'message:' || $3, $5)
ON CONFLICT (id) DO NOTHING

-- name: take_unalerted
-- No lock is held while an alert is sent: two handlers may send the same one twice, and none is lost.
SELECT id, kind, job_id, queue, task, reason, outcome, error, fingerprint, died_at
FROM mainspring.dead_letters
WHERE alerted_at IS NULL AND (id = ANY ($1::uuid[]) OR died_at < (SELECT clock_timestamp()) - $2::interval)
ORDER BY died_at
LIMIT 100

-- name: mark_alerted
UPDATE mainspring.dead_letters SET alerted_at = clock_timestamp()
WHERE id = ANY ($1::uuid[]) AND alerted_at IS NULL

-- name: live_states
SELECT id, state, fence, queue FROM mainspring.live_jobs WHERE id = ANY ($1::uuid[])

-- name: reschedule_set_aside
-- Jobs of a readable message that the broker set aside: their ticket is still current, so nothing else carries it.
WITH locked AS MATERIALIZED (
    SELECT job.id
    FROM (SELECT a.id, a.ticket FROM unnest($1::uuid[], $2::bigint[]) AS a (id, ticket) ORDER BY a.id) AS asked
    CROSS JOIN LATERAL (
        SELECT id FROM mainspring.live_jobs
        WHERE live_jobs.id = asked.id AND live_jobs.fence = asked.ticket
            AND live_jobs.state IN ('enqueued', 'admitted', 'retrying')
        FOR UPDATE
    ) AS job
),
moved AS (
    UPDATE mainspring.live_jobs
    SET state = 'scheduled', reason = 'set_aside_by_broker', fence = fence + 1,
        due_at = greatest(due_at, clock_timestamp())
    WHERE id = ANY (ARRAY(SELECT locked.id FROM locked))
    RETURNING id, fence
),
noted AS (
    INSERT INTO mainspring.events (job_id, event, fence, details)
    SELECT id, 'reconcile', fence, '{"cause": "set_aside_by_broker"}' FROM moved
)
SELECT id FROM moved

-- name: list_newest
SELECT id, kind, job_id, queue, task, reason, outcome, error, fingerprint, died_at, alerted_at
FROM mainspring.dead_letters
WHERE ($1::timestamptz IS NULL OR (died_at, id) < ($1, $2::uuid))
    AND ($4::text IS NULL OR queue = $4)
    AND ($5::text IS NULL OR task = $5)
    AND ($6::text IS NULL OR reason = $6)
    AND ($7::text IS NULL OR fingerprint = $7)
ORDER BY died_at DESC, id DESC
LIMIT $3

-- name: groups
-- Those that died alike: what a person decides upon at once.
SELECT
    fingerprint, kind, queue, task, reason, count(*) AS letters, min(died_at) AS first_died_at,
    max(died_at) AS last_died_at, (array_agg(error ORDER BY died_at DESC))[1] AS error
FROM mainspring.dead_letters
WHERE ($1::text IS NULL OR queue = $1) AND ($2::text IS NULL OR task = $2)
GROUP BY fingerprint, kind, queue, task, reason
ORDER BY letters DESC, fingerprint
LIMIT $3

-- name: jobs_among
-- Dead jobs that pass the filters, those that died first first; locked rows are somebody else's redrive.
SELECT job_id FROM mainspring.dead_letters
WHERE kind = 'job'
    AND ($1::text IS NULL OR queue = $1)
    AND ($2::text IS NULL OR task = $2)
    AND ($3::text IS NULL OR reason = $3)
    AND ($4::text IS NULL OR fingerprint = $4)
ORDER BY died_at, id
LIMIT $5
FOR UPDATE SKIP LOCKED

-- name: discard
-- A job stays dead, for another reason; a message is gone. Both are in the history.
WITH letter AS (
    DELETE FROM mainspring.dead_letters WHERE id = ANY ($1::uuid[]) RETURNING id, kind, job_id, reason
),
discarded AS (
    UPDATE mainspring.live_jobs SET reason = 'discarded', fence = fence + 1
    WHERE id = ANY (ARRAY(SELECT letter.job_id FROM letter)) AND state = 'dead'
    RETURNING id, fence
),
noted AS (
    INSERT INTO mainspring.events (job_id, event, fence, author, details)
    SELECT letter.job_id, 'discard', discarded.fence, $2,
        jsonb_build_object('letter', letter.id, 'reason', letter.reason, 'why', $3::text) || $4::jsonb
    FROM letter LEFT JOIN discarded ON discarded.id = letter.job_id
)
SELECT id FROM letter

-- name: exists
SELECT EXISTS (SELECT FROM mainspring.dead_letters WHERE id = $1)
