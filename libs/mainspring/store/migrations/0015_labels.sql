-- phase: expand
-- breaking: no
-- squawk-ignore-file adding-field-with-default
-- (both are a handful of rows)

-- What a worker says of itself, and what a task asks of its workers: gpu, region=eu.
ALTER TABLE mainspring.workers ADD COLUMN labels text [] NOT NULL DEFAULT '{}';
ALTER TABLE mainspring.tasks ADD COLUMN requires text [] NOT NULL DEFAULT '{}';
