-- Part of Upkeep.prune: drop the oldest events that are past their age or beyond the count, a bounded number a call.
CREATE OR REPLACE FUNCTION prune_events(_ns text, _seconds float8, _count bigint, _limit integer)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    _horizon float8 := now_seconds() - _seconds;
    _young record;
    _last record;
    _gone bigint;
    _surplus bigint := 0;
BEGIN
    -- n grows by at least one an event, so the span of n bounds their number without counting them.
    SELECT * INTO _last FROM (
        SELECT (SELECT n FROM events WHERE ns = _ns ORDER BY txid DESC, n DESC LIMIT 1) -
               (SELECT n FROM events WHERE ns = _ns ORDER BY txid, n LIMIT 1) AS span
    ) ends;
    IF _last.span + 100000 >= _count THEN
        SELECT count(*) - _count INTO _surplus FROM events WHERE ns = _ns;
    END IF;
    WITH oldest AS MATERIALIZED (
        SELECT row, txid, n, at, row_number() OVER (ORDER BY txid, n) AS place
        FROM (SELECT ctid AS row, txid, n, at FROM events WHERE ns = _ns ORDER BY txid, n LIMIT _limit) head
    ), keep AS (
        SELECT min(place) AS place FROM oldest WHERE at > _horizon AND place > _surplus
    )
    DELETE FROM events e
    WHERE e.ctid = ANY (ARRAY(SELECT o.row FROM oldest o, keep k WHERE k.place IS NULL OR o.place < k.place));
    GET DIAGNOSTICS _gone = ROW_COUNT;
    RETURN _gone;
END $$
