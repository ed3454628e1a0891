-- name: create
INSERT INTO mainspring.api_keys (id, name, secret_hash, scopes) VALUES ($1, $2, $3, $4)

-- name: all
SELECT id, name, scopes, created_at, last_used_at, revoked_at FROM mainspring.api_keys ORDER BY created_at, id

-- name: valid
SELECT id, name, secret_hash, scopes FROM mainspring.api_keys WHERE revoked_at IS NULL

-- name: revoke
UPDATE mainspring.api_keys SET revoked_at = coalesce(revoked_at, clock_timestamp()) WHERE id = $1 RETURNING id

-- name: note_use
UPDATE mainspring.api_keys SET last_used_at = clock_timestamp() WHERE id = ANY ($1::uuid[])
