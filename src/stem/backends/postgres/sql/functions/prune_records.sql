-- Part of Upkeep.prune: delete the records past their retention, at most _limit.
CREATE OR REPLACE FUNCTION prune_records(_ns text, _seconds float8, _limit integer) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    _horizon float8 := now_seconds() - _seconds;
    _gone bigint;
BEGIN
    DELETE FROM records r WHERE r.ctid = ANY (ARRAY(
        SELECT x.ctid FROM records x WHERE x.ns = _ns AND x.kept_from <= _horizon
        ORDER BY x.kept_from LIMIT _limit FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS _gone = ROW_COUNT;
    RETURN _gone;
END $$
