-- phase: expand
-- breaking: no
-- The order of a release, in a form that a statement takes into its own plan: a function that it calls is planned at each
-- call, which cost a release of one job a quarter of its time. That needs arguments without sub-selects (a lateral
-- join), and a body without a window.
CREATE OR REPLACE FUNCTION mainspring.release_order(aging interval, now timestamptz)
RETURNS TABLE (place bigint, priority integer, due_after timestamptz, due_until timestamptz) LANGUAGE sql IMMUTABLE ROWS 55
AS $$
    SELECT
        rank.rank * 10::bigint + 9 - gained.gained, rank.rank + gained.gained,
        CASE WHEN rank.rank = 0 OR aging IS NULL THEN '-infinity' ELSE now - aging * (gained.gained + 1) END,
        CASE WHEN gained.gained = 0 THEN now ELSE now - aging * gained.gained END
    FROM generate_series(0, 9) AS rank (rank)
    CROSS JOIN LATERAL generate_series(0, CASE WHEN aging IS NULL THEN 0 ELSE 9 - rank.rank END) AS gained (gained)
    ORDER BY 1
$$;
