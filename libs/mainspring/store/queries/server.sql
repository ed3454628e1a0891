-- name: facts
SELECT
    current_setting('server_version') AS version, current_setting('server_version_num')::integer AS version_number,
    pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on' AS read_only

-- name: watch
SELECT
    clock_timestamp() AS now, pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on' AS read_only,
    (SELECT release FROM mainspring.zone_data) AS zone_data

-- name: has_leader
SELECT EXISTS (SELECT FROM mainspring.leader WHERE expires_at > clock_timestamp())

-- name: leader
SELECT
    holder, term, taken_at, expires_at,
    extract(epoch FROM clock_timestamp() - taken_at)::double precision AS age_seconds
FROM mainspring.leader WHERE duty = 'leader' AND expires_at > clock_timestamp()

-- name: horizon
-- How long ago the oldest transaction began that keeps dead rows from being removed.
SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::double precision
FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid()
