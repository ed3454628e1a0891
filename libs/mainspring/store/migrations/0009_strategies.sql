-- phase: expand
-- breaking: no
-- squawk-ignore-file require-concurrent-index-creation, constraint-missing-not-valid, adding-field-with-default
-- squawk-ignore-file ban-drop-function
-- (limits are a handful of rows; the index is on jobs that wait after an attempt, which are few; older releases call the
-- new functions as they called the old)

-- What a concurrency limit does when a job finds it full, and whether jobs of a key keep their order.
ALTER TABLE mainspring.limits
    ADD COLUMN strategy text NOT NULL DEFAULT 'wait'
        CONSTRAINT limits_strategy CHECK (strategy IN ('wait', 'cancel_running', 'cancel_new')),
    ADD COLUMN ordered boolean NOT NULL DEFAULT false,
    ADD CONSTRAINT limits_of_concurrency CHECK (kind = 'concurrency' OR (strategy = 'wait' AND NOT ordered)),
    ADD CONSTRAINT limits_ordered CHECK (NOT ordered OR (most = 1 AND strategy = 'wait'));

-- Jobs that have begun and wait for their next attempt: where jobs keep their order they keep their slot.
CREATE INDEX live_jobs_begun ON mainspring.live_jobs (queue)
WHERE state IN ('scheduled', 'blocked', 'retrying') AND (attempts_used > 0 OR hand_backs > 0);

-- As before, and whether a limit of the task or the queue keeps its jobs in order.
DROP FUNCTION mainspring.line_marks(text, text);
CREATE FUNCTION mainspring.line_marks(
    wanted_queue text, wanted_task text,
    OUT fair_by text, OUT is_task_limited boolean, OUT paths text [], OUT is_ordered boolean
) RETURNS record LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT queues.fair_by INTO fair_by FROM mainspring.queues WHERE queues.name = wanted_queue;
    SELECT coalesce(bool_or(wanted_task = ANY (limits.tasks)), false), coalesce(bool_or(limits.ordered), false)
    INTO is_task_limited, is_ordered
    FROM mainspring.limits_of(wanted_queue, wanted_task) AS limits;
    SELECT coalesce(array_agg(DISTINCT found.path), '{}') INTO paths
    FROM mainspring.limits_of(wanted_queue, wanted_task) AS limits
    CROSS JOIN LATERAL (VALUES (limits.per), (limits.cost)) AS found (path)
    WHERE found.path IS NOT NULL;
END;
$$;

-- As before; a job that has begun and keeps its slot has a line of its own kind, which says so at its end.
DROP FUNCTION mainspring.draw_line(text, jsonb, text, boolean, text []);
CREATE FUNCTION mainspring.draw_line(
    task text, payload jsonb, fair_by text, is_task_limited boolean, paths text [], keeps_slot boolean DEFAULT false
) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    keys jsonb := '{}';
    path text;
    marks jsonb;
BEGIN
    FOREACH path IN ARRAY paths LOOP
        keys := keys || jsonb_build_object(path, mainspring.payload_key(payload, path));
    END LOOP;
    marks := jsonb_build_array(
        CASE WHEN fair_by IS NULL THEN '' ELSE mainspring.payload_key(payload, fair_by) END,
        CASE WHEN is_task_limited THEN task ELSE '' END,
        keys
    );
    RETURN (CASE WHEN keeps_slot THEN marks || '"begun"' ELSE marks END)::text;
END;
$$;

CREATE OR REPLACE FUNCTION mainspring.line_of(wanted_id uuid, wanted_queue text, wanted_task text) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT mainspring.draw_line(
        wanted_task, details.payload, marks.fair_by, marks.is_task_limited, marks.paths,
        marks.is_ordered AND (
            SELECT job.attempts_used > 0 OR job.hand_backs > 0 FROM mainspring.live_jobs AS job WHERE job.id = wanted_id
        )
    )
    FROM mainspring.line_marks(wanted_queue, wanted_task) AS marks, mainspring.job_details AS details
    WHERE details.id = wanted_id
$$;
