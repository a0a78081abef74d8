-- One step of Broker.purge: cancel what waits in the queue, oldest first, reason purged, event revoked.
CREATE OR REPLACE FUNCTION purge(_ns text, _queue text, _up_to bigint, _limit integer)
RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    _now float8 := now_seconds();
    rows tid[];
    ids text[];
BEGIN
    SELECT array_agg(x.ctid), array_agg(x.id) INTO rows, ids FROM (
        SELECT m.ctid, m.id FROM messages m
        WHERE m.ns = _ns AND m.queue = _queue AND m.place = 0 AND m.seq <= _up_to
        ORDER BY m.priority DESC, m.seq LIMIT _limit FOR UPDATE
    ) x;
    IF rows IS NULL THEN
        SELECT array_agg(x.ctid), array_agg(x.id) INTO rows, ids FROM (
            SELECT m.ctid, m.id FROM messages m
            WHERE m.ns = _ns AND m.queue = _queue AND m.place = 1 AND m.seq <= _up_to
            ORDER BY m.due_at, m.seq LIMIT _limit FOR UPDATE
        ) x;
    END IF;
    RETURN cancel_rows(_ns, rows, ids, 'purged');
END $$
