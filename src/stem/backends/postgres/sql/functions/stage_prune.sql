-- Part of Upkeep.prune: delete what dead jobs left staged, a few at a time, and promotions past their retention.
CREATE OR REPLACE FUNCTION stage_prune(_ns text, _leftover_seconds float8, _seconds float8) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    _now float8 := now_seconds();
    _left text;
    _gone bigint := 0;
    _more bigint;
BEGIN
    FOR _left IN
        SELECT j.job FROM stage_jobs j
        WHERE j.ns = _ns AND j.staged_at <= _now - _leftover_seconds
          AND (j.promoted_at IS NULL OR to_regclass(stage_table(_ns, j.job)) IS NOT NULL)
        LIMIT 10 FOR UPDATE SKIP LOCKED
    LOOP
        PERFORM stage_discard(_ns, _left);
        _gone := _gone + 1;
    END LOOP;
    DELETE FROM stage_jobs j WHERE j.ns = _ns AND j.promoted_at <= _now - _seconds;
    GET DIAGNOSTICS _more = ROW_COUNT;
    RETURN _gone + _more;
END $$
