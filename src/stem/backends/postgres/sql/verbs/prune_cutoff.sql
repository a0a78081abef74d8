-- Part of Upkeep.prune: the newest event beyond the count that is kept, if there is one. Looked up once for many steps.
CREATE OR REPLACE FUNCTION prune_cutoff(_ns text, _count bigint)
RETURNS TABLE (last_txid text, last_n bigint) LANGUAGE plpgsql AS $$
DECLARE
    _span bigint := (SELECT n FROM events WHERE ns = _ns ORDER BY txid DESC, n DESC LIMIT 1) -
                    (SELECT n FROM events WHERE ns = _ns ORDER BY txid, n LIMIT 1);
BEGIN
    -- n grows by at least one an event, so its span, give or take the blocks drawn, bounds their number without counting.
    -- Of those in tables of their own it was drawn earlier than they were logged.
    IF _span + 100000 >= _count OR EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = 'events'::regclass) THEN
        RETURN QUERY SELECT e.txid::text, e.n FROM events e WHERE e.ns = _ns
                     ORDER BY e.txid DESC, e.n DESC OFFSET _count LIMIT 1;
    END IF;
END $$
