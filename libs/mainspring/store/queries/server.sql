-- name: facts
SELECT
    current_setting('server_version') AS version, current_setting('server_version_num')::integer AS version_number,
    pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on' AS read_only

-- name: has_leader
SELECT EXISTS (SELECT FROM mainspring.leader WHERE expires_at > clock_timestamp())
