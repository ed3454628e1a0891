-- name: place
SELECT pg_current_snapshot()::text

-- name: page
-- What was committed since a snapshot ($1 its xmax, $2 what was in progress below it), by whole transactions, so that a
-- page ends between two. The two halves are "not visible in that snapshot" in a form that an index serves. What is
-- visible now is below the current xmax, unless a dump brought it from another server.
WITH recorded AS MATERIALIZED (
    SELECT * FROM mainspring.history
    WHERE xact >= $1::xid8 AND xact < (SELECT pg_snapshot_xmax(pg_current_snapshot()))
    UNION ALL
    SELECT * FROM mainspring.history WHERE xact = ANY ($2::xid8[])
    ORDER BY xact
    FETCH FIRST $3 ROWS WITH TIES
)
SELECT seen.place, recorded.*, job.task, job.queue
FROM (SELECT pg_current_snapshot()::text AS place) AS seen
LEFT JOIN recorded ON true
LEFT JOIN LATERAL (
    SELECT task, queue FROM mainspring.live_jobs WHERE live_jobs.id = recorded.job_id
    UNION ALL
    SELECT task, queue FROM mainspring.finished_jobs WHERE finished_jobs.id = recorded.job_id
    LIMIT 1
) AS job ON true
ORDER BY recorded.xact, recorded.at, recorded.fence
