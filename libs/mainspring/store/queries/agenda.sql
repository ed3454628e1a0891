-- name: look
-- One look for all loops that wait for rows, each at the head of an index; a column has the name of its loop. The
-- scalar sub-selects with a LIMIT stay look-ups: an EXISTS may become a hash.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
SELECT
    (
        SELECT true FROM mainspring.schedules
        WHERE NOT paused AND broken IS NULL AND fires_at <= (SELECT now FROM clock) + $1::interval LIMIT 1
    ) IS TRUE AS fire_due,
    (
        SELECT true FROM mainspring.live_jobs
        WHERE state = 'running' AND lease_until < (SELECT now FROM clock) LIMIT 1
    ) IS TRUE AS reclaim_expired,
    (
        SELECT true FROM mainspring.outbox WHERE created_at < (SELECT now FROM clock) - $2::interval LIMIT 1
    ) IS TRUE AS republish_outbox,
    (
        SELECT true FROM mainspring.live_jobs
        WHERE state = 'retrying' AND due_at < (SELECT now FROM clock) - $3::interval LIMIT 1
    ) IS TRUE OR (
        SELECT true FROM mainspring.live_jobs
        WHERE expires_at IS NOT NULL AND expires_at <= (SELECT now FROM clock)
            AND state IN ('scheduled', 'blocked', 'enqueued', 'admitted', 'retrying')
        LIMIT 1
    ) IS TRUE AS reconcile_messages,
    (SELECT true FROM mainspring.backfills WHERE state = 'running' LIMIT 1) IS TRUE AS backfill_due,
    (
        SELECT true FROM mainspring.bulk_operations
        WHERE state = 'running' AND next_at <= (SELECT now FROM clock) + $1::interval LIMIT 1
    ) IS TRUE AS bulk_due,
    (
        SELECT true FROM mainspring.live_jobs WHERE state = 'scheduled' AND reason = 'overlap' LIMIT 1
    ) IS TRUE AS let_go,
    -- Whoever computes by other zone data leaves these alone, so that they come to be the first of what is due.
    (SELECT release FROM mainspring.zone_data) IS DISTINCT FROM $5 OR (
        SELECT true FROM (
            SELECT zone_data, timezone FROM mainspring.schedules
            WHERE NOT paused AND broken IS NULL AND fires_at <= (SELECT now FROM clock)
            ORDER BY fires_at LIMIT 100
        ) AS due
        WHERE zone_data <> $5 AND timezone <> 'UTC'
        LIMIT 1
    ) IS TRUE AS zone_data,
    (SELECT true FROM mainspring.queue_first_uses LIMIT 1) IS TRUE
    OR (SELECT count(*) FROM mainspring.queues) <> $4 AS declare_queues
