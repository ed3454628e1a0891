-- phase: expand
-- breaking: no
-- squawk-ignore-file require-concurrent-index-creation, prefer-timestamp-tz
-- (an index on a partitioned table can't be built concurrently, the others are on rows that are few or don't exist yet;
-- what a clock on the wall shows has no zone)

-- Days on which schedules don't fire: 2026-12-24, or 12-25 for each year.
CREATE TABLE mainspring.calendars (
    name text PRIMARY KEY,
    days text [] NOT NULL,
    note text,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

ALTER TABLE mainspring.schedules
    ADD COLUMN calendars text [] NOT NULL DEFAULT '{}',
    -- After so many failures in a row it pauses itself.
    ADD COLUMN pause_after integer,
    -- The release of the zone data by which next_nominal_at was computed; NULL: it isn't known.
    ADD COLUMN zone_data text,
    -- What a clock on the wall showed at the last nominal time that was decided: it comes once, whatever the zone does.
    ADD COLUMN last_local timestamp,
    -- Since when its nominal times are those of its present trigger, and it has not been paused.
    ADD COLUMN active_since timestamptz NOT NULL DEFAULT now(),
    -- Why it is paused.
    ADD COLUMN pause_note text;
-- What is late while services are replaced is still to be fired.
UPDATE mainspring.schedules SET active_since = next_nominal_at - interval '1 microsecond'
WHERE next_nominal_at <= active_since;
CREATE INDEX schedules_with_calendars ON mainspring.schedules (name) WHERE calendars <> '{}';

-- An older release that pauses, resumes or edits knows nothing of this: what it passes over is no gap.
CREATE FUNCTION mainspring.note_other_schedule() RETURNS trigger LANGUAGE plpgsql SET search_path = '' AS $$
BEGIN
    NEW.active_since := clock_timestamp();
    RETURN NEW;
END $$;
CREATE TRIGGER schedules_other BEFORE UPDATE ON mainspring.schedules FOR EACH ROW
    WHEN (
        new.active_since = old.active_since AND new.updated_at <> old.updated_at
        AND (new.paused, new.cron, new.every_seconds, new.at, new.timezone, new.start_at, new.end_at)
        IS DISTINCT FROM (old.paused, old.cron, old.every_seconds, old.at, old.timezone, old.start_at, old.end_at)
    )
    EXECUTE FUNCTION mainspring.note_other_schedule();

CREATE FUNCTION mainspring.excluded_days(calendars text []) RETURNS text [] LANGUAGE sql STABLE
SET search_path = '' AS $$
    SELECT CASE WHEN calendars = '{}' THEN '{}'::text[] ELSE coalesce((
        SELECT array_agg(day) FROM mainspring.calendars AS one CROSS JOIN unnest(one.days) AS day
        WHERE one.name = ANY (calendars)
    ), '{}') END
$$;

-- When a fire was meant to be made, jitter included (lateness is recorded_at less this); which backfill made it.
ALTER TABLE mainspring.fires ADD COLUMN planned_at timestamptz, ADD COLUMN backfill uuid;

-- Past nominal times that a person wants jobs of: one after another, or some at once.
CREATE TABLE mainspring.backfills (
    id uuid PRIMARY KEY,
    schedule text NOT NULL,
    start_at timestamptz NOT NULL,
    end_at timestamptz NOT NULL,
    -- Jobs of it that may be live at once.
    parallel integer NOT NULL CHECK (parallel BETWEEN 1 AND 100),
    nominal_times integer NOT NULL,
    -- The next nominal time to make a job of; NULL when all are made.
    next_nominal_at timestamptz,
    jobs integer NOT NULL DEFAULT 0,
    state text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'finished', 'cancelled')),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at timestamptz
);
CREATE INDEX backfills_running ON mainspring.backfills (created_at) WHERE state = 'running';
CREATE INDEX backfills_schedule ON mainspring.backfills (schedule, created_at);

-- A backfill's jobs are no runs of the schedule: no overlap policy counts them, and none is its last one.
ALTER TABLE mainspring.live_jobs ADD COLUMN backfill uuid;
ALTER TABLE mainspring.finished_jobs ADD COLUMN backfill uuid;
CREATE INDEX live_jobs_backfill ON mainspring.live_jobs (backfill) WHERE backfill IS NOT NULL;

-- Jobs of schedules that run one at a time, held until the earlier ones have ended.
CREATE INDEX live_jobs_held ON mainspring.live_jobs (schedule, id) WHERE state = 'scheduled' AND reason = 'overlap';

-- A schedule's last runs: what the next one is told, and whether it has been failing.
CREATE INDEX finished_jobs_schedule ON mainspring.finished_jobs (schedule, finished_at)
WHERE schedule IS NOT NULL AND backfill IS NULL;

-- The release of the zone data that the leading scheduler computes with. Others are told when theirs differs.
CREATE TABLE mainspring.zone_data (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    release text NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Since when the holder leads.
ALTER TABLE mainspring.leader ADD COLUMN taken_at timestamptz;
