-- Part of Upkeep.prune: return the newest event beyond the count that is kept, if there is one. Called once for many steps.
CREATE OR REPLACE FUNCTION prune_cutoff(_ns text, _count bigint)
RETURNS TABLE (last_txid text, last_n bigint) LANGUAGE plpgsql AS $$
DECLARE
    -- n grows by at least one an event, so its span, give or take the blocks drawn, bounds their number without counting.
    _most bigint := (SELECT last_value FROM event_n) - (SELECT n FROM events WHERE ns = _ns ORDER BY txid, n LIMIT 1) + 100000;
BEGIN
    IF _most >= _count THEN
        RETURN QUERY SELECT e.txid::text, e.n FROM events e WHERE e.ns = _ns
                     ORDER BY e.txid DESC, e.n DESC OFFSET _count LIMIT 1;
    END IF;
END $$
