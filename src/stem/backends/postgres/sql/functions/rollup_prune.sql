-- Part of Upkeep.prune: delete the minutes past the retention of events, at most _limit rows.
CREATE OR REPLACE FUNCTION rollup_prune(_ns text, _seconds float8, _limit integer) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    _horizon bigint := ((now_seconds() - _seconds) * 1000000)::bigint;
    _gone bigint;
BEGIN
    DELETE FROM rollups r WHERE r.ctid = ANY (ARRAY(
        SELECT x.ctid FROM rollups x WHERE x.ns = _ns AND x.minute <= _horizon
        ORDER BY x.minute LIMIT _limit FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS _gone = ROW_COUNT;
    RETURN _gone;
END $$
