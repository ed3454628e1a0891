-- name: of_jobs
SELECT id, traceparent FROM mainspring.job_details WHERE id = ANY ($1::uuid[])
