-- phase: expand
-- breaking: no

-- A key's secret is 256 bits of chance, so its plain SHA-256 can't be guessed back.
CREATE TABLE mainspring.api_keys (
    id uuid PRIMARY KEY,
    name text NOT NULL CHECK (name <> ''),
    secret_hash bytea NOT NULL CHECK (octet_length(secret_hash) = 32),
    scopes text [] NOT NULL CHECK (
        cardinality(scopes) >= 1 AND scopes <@ ARRAY['read', 'submit', 'operate', 'admin']
    ),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_used_at timestamptz,
    revoked_at timestamptz
);
