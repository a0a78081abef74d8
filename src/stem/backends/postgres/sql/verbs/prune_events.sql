-- Part of Upkeep.prune: drop the oldest events that are past their age or not after the cutoff, at most _limit.
CREATE OR REPLACE FUNCTION prune_events(_ns text, _seconds float8, _txid text, _n bigint, _limit integer)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    _horizon float8 := now_seconds() - _seconds;
    _gone bigint;
BEGIN
    WITH oldest AS MATERIALIZED (
        SELECT row, txid, n, at, row_number() OVER (ORDER BY txid, n) AS place
        FROM (SELECT ctid AS row, txid, n, at FROM events WHERE ns = _ns ORDER BY txid, n LIMIT _limit) head
    ), keep AS (
        SELECT min(place) AS place FROM oldest WHERE at > _horizon AND (txid, n) > (_txid::xid8, _n)
    )
    DELETE FROM events e
    WHERE e.ctid = ANY (ARRAY(SELECT row FROM oldest))
      AND e.n = ANY (ARRAY(SELECT o.n FROM oldest o, keep k WHERE k.place IS NULL OR o.place < k.place));
    GET DIAGNOSTICS _gone = ROW_COUNT;
    RETURN _gone;
END $$
