-- Part of Upkeep.prune: delete the oldest events that are past their age or not after the cutoff, at most _limit.
CREATE OR REPLACE FUNCTION prune_events(_ns text, _seconds float8, _txid text, _n bigint, _limit integer)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    _horizon float8 := now_seconds() - _seconds;
    _gone bigint;
BEGIN
    WITH oldest AS MATERIALIZED (
        SELECT ctid AS row, txid, n, at FROM events WHERE ns = _ns ORDER BY txid, n LIMIT _limit
    ), kept AS MATERIALIZED (
        SELECT txid, n FROM oldest WHERE at > _horizon AND (txid, n) > (_txid::xid8, _n) ORDER BY txid, n LIMIT 1
    )
    DELETE FROM events e WHERE e.ctid = ANY (ARRAY(
        SELECT o.row FROM oldest o
        WHERE NOT EXISTS (SELECT FROM kept) OR (o.txid, o.n) < (SELECT k.txid, k.n FROM kept k)
    ));
    GET DIAGNOSTICS _gone = ROW_COUNT;
    RETURN _gone;
END $$
