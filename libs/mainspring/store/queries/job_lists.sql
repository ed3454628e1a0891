-- name: page
-- Walks the two primary keys downwards side by side, and stops when the page is full.
SELECT * FROM mainspring.jobs
WHERE id < $1 AND id >= $2
    AND ($3::text[] IS NULL OR state = ANY ($3))
    AND ($4::text IS NULL OR queue = $4)
    AND ($5::text IS NULL OR task = $5)
    AND ($6::text IS NULL OR schedule = $6)
    AND ($7::text IS NULL OR tags @> ARRAY[$7::text])
ORDER BY id DESC
LIMIT $8
