-- Part of Upkeep.prune: delete what has expired, at most _limit entries of a kind, and note when.
CREATE OR REPLACE FUNCTION prune_ended(_ns text, _limit integer)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    _now float8 := now_seconds();
    _gone bigint := 0;
    _more bigint;
BEGIN
    DELETE FROM locks l WHERE l.ns = _ns AND l.held_until <= _now;
    GET DIAGNOSTICS _more = ROW_COUNT; _gone := _gone + _more;
    DELETE FROM heartbeats h WHERE h.ns = _ns AND h.kept_until <= _now;
    GET DIAGNOSTICS _more = ROW_COUNT; _gone := _gone + _more;
    DELETE FROM uniques u WHERE u.ctid = ANY (ARRAY(
        SELECT x.ctid FROM uniques x WHERE x.ns = _ns AND x.held_until <= _now LIMIT _limit FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS _more = ROW_COUNT; _gone := _gone + _more;
    DELETE FROM mail m WHERE m.ctid = ANY (ARRAY(
        SELECT x.ctid FROM mail x WHERE x.ns = _ns AND x.expires_at <= _now LIMIT _limit FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS _more = ROW_COUNT; _gone := _gone + _more;
    DELETE FROM revokes v WHERE v.ctid = ANY (ARRAY(
        SELECT x.ctid FROM revokes x WHERE x.ns = _ns AND x.expires_at <= _now LIMIT _limit FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS _more = ROW_COUNT; _gone := _gone + _more;
    DELETE FROM buckets b WHERE b.ctid = ANY (ARRAY(
        SELECT x.ctid FROM buckets x WHERE x.ns = _ns AND x.expires_at <= _now LIMIT _limit FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS _more = ROW_COUNT; _gone := _gone + _more;
    DELETE FROM places p WHERE p.ctid = ANY (ARRAY(
        SELECT x.ctid FROM places x WHERE x.ns = _ns AND x.expires_at <= _now LIMIT _limit FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS _more = ROW_COUNT; _gone := _gone + _more;
    DELETE FROM holders o WHERE o.ctid = ANY (ARRAY(
        SELECT x.ctid FROM holders x WHERE x.ns = _ns AND x.expires_at <= _now LIMIT _limit FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS _more = ROW_COUNT; _gone := _gone + _more;
    DELETE FROM lost l WHERE l.ns = _ns AND l.at <= _now - 3600;  -- core/decisions/reclaim_watch.py: LOST_SECONDS
    GET DIAGNOSTICS _more = ROW_COUNT; _gone := _gone + _more;
    INSERT INTO upkeep (ns, pruned_at) VALUES (_ns, _now) ON CONFLICT (ns) DO UPDATE SET pruned_at = excluded.pruned_at;
    RETURN _gone;
END $$
