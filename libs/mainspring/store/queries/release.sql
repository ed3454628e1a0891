-- name: next_due
-- For each queue that isn't paused the first due time at or after its lower bounds (an index probe for each priority),
-- and whether jobs wait in lines, which are behind the bounds. A queue that was used for the first time and isn't made
-- yet is named with neither.
SELECT found.* FROM (
    SELECT
        queues.name AS queue, min(first.due_at) AS due_at, (SELECT clock_timestamp()) AS now,
        -- A scalar with a LIMIT stays a probe; an EXISTS may become a hash of all that is blocked.
        coalesce((
            SELECT true FROM mainspring.live_jobs
            WHERE live_jobs.queue = queues.name AND live_jobs.state = 'blocked' AND live_jobs.line IS NOT NULL
            LIMIT 1
        ), false) AS has_lines
    FROM mainspring.queues
    LEFT JOIN unnest($1::text[]) WITH ORDINALITY AS bounded (queue, place) ON bounded.queue = queues.name
    CROSS JOIN generate_series(0, 9) AS level (priority)
    LEFT JOIN LATERAL (
        SELECT live_jobs.due_at FROM mainspring.live_jobs
        WHERE live_jobs.queue = queues.name AND live_jobs.state IN ('scheduled', 'blocked')
            AND live_jobs.priority = level.priority
            AND live_jobs.due_at
                >= coalesce(($2::timestamptz[])[(bounded.place - 1) * 10 + level.priority + 1], '-infinity')
        ORDER BY live_jobs.due_at LIMIT 1
    ) AS first ON true
    WHERE NOT queues.paused
    GROUP BY queues.name
) AS found
WHERE found.due_at IS NOT NULL OR found.has_lines
UNION ALL
SELECT DISTINCT queue_first_uses.name, NULL::timestamptz, clock_timestamp(), false FROM mainspring.queue_first_uses

-- name: release
-- By priority, as aging has it, then due time, as far as the queue's credit goes. The picks are materialised: a plan that joins must
-- not change their number. A queue with lines has none here.
WITH forgotten AS (DELETE FROM mainspring.outbox WHERE id = ANY ($5::bigint[])),
queue AS MATERIALIZED (
    SELECT
        CASE WHEN has_lines THEN 0 ELSE credit END AS credit, age, has_lines, aging, in_broker, counted_at,
        clock_timestamp() AS now
    FROM mainspring.lock_queue($1, $6, $7, $8, $4)
),
due AS MATERIALIZED (
    SELECT picked.id, level.place
    FROM queue
    CROSS JOIN LATERAL mainspring.release_order(queue.aging, queue.now) AS level
    CROSS JOIN LATERAL (
        SELECT live_jobs.id FROM mainspring.live_jobs
        WHERE live_jobs.queue = $1 AND live_jobs.state IN ('scheduled', 'blocked')
            AND live_jobs.priority = level.priority
            AND live_jobs.due_at >= ($3::timestamptz[])[level.priority + 1]
            AND live_jobs.due_at > level.due_after AND live_jobs.due_at <= level.due_until
        ORDER BY live_jobs.due_at, live_jobs.id
        LIMIT coalesce((SELECT least(queue.credit, $2) FROM queue), 0)
        FOR UPDATE SKIP LOCKED
    ) AS picked
    LIMIT coalesce((SELECT least(queue.credit, $2) FROM queue), 0)
),
released AS (
    UPDATE mainspring.live_jobs
    SET state = 'enqueued', fence = fence + 1, released_at = clock_timestamp(), rechecks = 0, reason = NULL
    WHERE id = ANY (ARRAY(SELECT due.id FROM due))
    RETURNING id, fence, priority, due_at
),
placed AS MATERIALIZED (
    SELECT
        released.id, released.fence, released.priority, released.due_at,
        row_number() OVER (ORDER BY due.place, released.due_at, released.id) AS place
    FROM released JOIN due ON due.id = released.id
),
batches AS (
    INSERT INTO mainspring.outbox (queue, ids, tickets)
    SELECT $1, array_agg(placed.id ORDER BY placed.place), array_agg(placed.fence ORDER BY placed.place)
    FROM placed
    GROUP BY (placed.place - 1) / $4
    ORDER BY (placed.place - 1) / $4
    RETURNING id, ids, tickets
)
SELECT
    queue.credit, queue.age, queue.has_lines, queue.in_broker, queue.counted_at,
    batches.id, batches.ids, batches.tickets, last.priorities, last.reached
FROM queue
LEFT JOIN batches ON true
CROSS JOIN (
    SELECT array_agg(level.priority) AS priorities, array_agg(level.due_at) AS reached
    FROM (SELECT placed.priority, max(placed.due_at) AS due_at FROM placed GROUP BY placed.priority) AS level
) AS last
ORDER BY batches.id

-- name: queues_of
-- Where jobs of these tasks go that name these queues, or none, as far as only credit is asked for there: what a release
-- alone can judge (a pause, limits, lines, turns) keeps a queue out. With the outbox's last id.
SELECT
    asked.place, queues.name AS queue, queues.release_window,
    CASE WHEN last.is_called THEN last.last_value ELSE 0 END AS last_id
FROM mainspring.outbox_id_seq AS last
CROSS JOIN unnest($1::text[], $2::text[]) WITH ORDINALITY AS asked (task, queue, place)
LEFT JOIN mainspring.tasks ON tasks.name = asked.task
JOIN mainspring.queues ON queues.name = coalesce(asked.queue, tasks.queue, 'default')
WHERE NOT queues.paused AND queues.fair_by IS NULL AND queues.backs_off_until <= clock_timestamp()
    AND NOT EXISTS (
        SELECT FROM mainspring.limits
        WHERE limits.queue = queues.name OR queues.name = ANY (limits.queues) OR asked.task = ANY (limits.tasks)
    )
    AND (
        SELECT true FROM mainspring.live_jobs
        WHERE live_jobs.queue = queues.name AND live_jobs.state = 'blocked' AND live_jobs.line IS NOT NULL
        LIMIT 1
    ) IS NULL

-- name: in_broker
SELECT count(*) FROM mainspring.live_jobs WHERE queue = $1 AND state IN ('enqueued', 'admitted')

-- name: store_batches
INSERT INTO mainspring.outbox (queue, ids, tickets)
SELECT asked.queue, array_agg(asked.id ORDER BY asked.place), array_agg(2::bigint)
FROM unnest($1::text[], $2::integer[], $3::uuid[]) WITH ORDINALITY AS asked (queue, batch, id, place)
GROUP BY asked.queue, asked.batch
ORDER BY min(asked.place)
RETURNING id, queue, ids, tickets

-- name: delete_outbox
DELETE FROM mainspring.outbox WHERE id = ANY ($1::bigint[])

-- name: take_stale_outbox
-- Rows that no scheduler has published in time. The lock is short: publishing twice is harmless.
SELECT id, queue, ids, tickets, extract(epoch FROM clock_timestamp() - created_at)::double precision AS age
FROM mainspring.outbox
WHERE created_at < (SELECT clock_timestamp()) - $1::interval
ORDER BY id
LIMIT 100
FOR UPDATE SKIP LOCKED

-- name: put_back
-- A returned message: its jobs wait in Postgres again, and their queue backs off alone.
WITH locked AS MATERIALIZED (
    SELECT live_jobs.id
    FROM (SELECT a.id, a.ticket FROM unnest($2::uuid[], $3::bigint[]) AS a (id, ticket) ORDER BY a.id) AS asked
    CROSS JOIN LATERAL (
        SELECT live_jobs.id FROM mainspring.live_jobs
        WHERE live_jobs.id = asked.id AND live_jobs.fence = asked.ticket AND live_jobs.state = 'enqueued' FOR UPDATE
    ) AS live_jobs
),
backed_off AS (
    UPDATE mainspring.queues SET backs_off_until = clock_timestamp() + $4::interval WHERE name = $1
),
noted AS (
    INSERT INTO mainspring.events (job_id, event, details) SELECT id, 'return', '{"reason": "unroutable"}' FROM locked
)
UPDATE mainspring.live_jobs
SET state = 'scheduled', reason = 'unroutable', fence = fence + 1, due_at = clock_timestamp() + $4::interval
WHERE id = ANY (ARRAY(SELECT locked.id FROM locked))
RETURNING id
