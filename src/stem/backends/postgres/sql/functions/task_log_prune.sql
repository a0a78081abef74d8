-- Part of Upkeep.prune: delete the lines of tasks past their retention, at most _limit rows.
CREATE OR REPLACE FUNCTION task_log_prune(_ns text, _seconds float8, _limit integer) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    _horizon float8 := now_seconds() - _seconds;
    _gone bigint;
BEGIN
    DELETE FROM task_logs l WHERE l.ctid = ANY (ARRAY(
        SELECT x.ctid FROM task_logs x WHERE x.ns = _ns AND x.at <= _horizon
        ORDER BY x.at LIMIT _limit FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS _gone = ROW_COUNT;
    RETURN _gone;
END $$
