-- Broker.purge, one step: cancel waiting tasks of the queue, oldest first: reason purged, event revoked.
CREATE OR REPLACE FUNCTION purge(_ns text, _queue text, _up_to bigint, _limit integer)
RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    _rows tid[] := ARRAY(
        SELECT m.ctid FROM messages m
        WHERE m.ns = _ns AND m.queue = _queue AND m.place = 0 AND m.seq <= _up_to
        ORDER BY m.priority DESC, m.seq LIMIT _limit FOR UPDATE
    );
BEGIN
    IF _rows = '{}' THEN
        _rows := ARRAY(
            SELECT m.ctid FROM messages m
            WHERE m.ns = _ns AND m.queue = _queue AND m.place = 1 AND m.seq <= _up_to
            ORDER BY m.due_at, m.seq LIMIT _limit FOR UPDATE
        );
    END IF;
    RETURN cancel_rows(_ns, _rows, 'purged');
END $$
