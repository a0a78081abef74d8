-- Part of Upkeep.prune: delete the records past their retention, at most _limit. Those that other tasks still need are put off, so
-- that they are not looked at each time; as long as there are nothing but such ones, the next are looked at.
CREATE OR REPLACE FUNCTION prune_records(_ns text, _seconds float8, _limit integer) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    _horizon float8 := now_seconds() - _seconds;
    _rows tid[];
    _needed tid[];
    _gone bigint := 0;
BEGIN
    FOR _page IN 1 .. 10 LOOP
        SELECT array_agg(o.row), array_agg(o.row) FILTER (WHERE o.dependents IS NOT NULL AND needed(_ns, o.dependents))
        INTO _rows, _needed FROM (
            SELECT x.ctid AS row, x.dependents FROM records x WHERE x.ns = _ns AND x.kept_from <= _horizon
            ORDER BY x.kept_from LIMIT _limit FOR UPDATE SKIP LOCKED
        ) o;
        EXIT WHEN _rows IS NULL;
        IF _needed IS NOT NULL THEN
            UPDATE records r SET kept_from = _horizon + least(_seconds, 3600) WHERE r.ctid = ANY (_needed);
            _rows := ARRAY(SELECT u.row FROM unnest(_rows) AS u (row) WHERE u.row <> ALL (_needed));
        END IF;
        _gone := forget(_ns, _rows);
        EXIT WHEN _gone > 0;
    END LOOP;
    RETURN _gone;
END $$
