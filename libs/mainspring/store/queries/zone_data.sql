-- name: get
SELECT release FROM mainspring.zone_data

-- name: set
INSERT INTO mainspring.zone_data (release) VALUES ($1)
ON CONFLICT (is_only) DO UPDATE SET release = excluded.release, changed_at = clock_timestamp()
