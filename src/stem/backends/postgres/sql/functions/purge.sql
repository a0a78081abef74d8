-- Broker.purge, one step: cancel waiting tasks of the queue: reason purged, event revoked. Blocked ones go first, the youngest
-- before those that they wait for, which would cancel them for another reason. Returns the ids, and what carry_on tells.
CREATE OR REPLACE FUNCTION purge(
    _ns text, _queue text, _up_to bigint, _limit integer,
    OUT cancelled text[], OUT told_queues text[], OUT told_ended text[]
) LANGUAGE plpgsql AS $$
DECLARE
    _rows tid[] := ARRAY(
        SELECT m.ctid FROM messages m
        WHERE m.ns = _ns AND m.queue = _queue AND m.place = 3 AND m.seq <= _up_to
        ORDER BY m.seq DESC LIMIT _limit FOR UPDATE
    );
    _gone record;
    _told record;
BEGIN
    IF _rows = '{}' THEN
        _rows := ARRAY(
            SELECT m.ctid FROM messages m
            WHERE m.ns = _ns AND m.queue = _queue AND m.place = 0 AND m.seq <= _up_to
            ORDER BY m.priority DESC, m.seq LIMIT _limit FOR UPDATE
        );
    END IF;
    IF _rows = '{}' THEN
        _rows := ARRAY(
            SELECT m.ctid FROM messages m
            WHERE m.ns = _ns AND m.queue = _queue AND m.place = 1 AND m.seq <= _up_to
            ORDER BY m.due_at, m.seq LIMIT _limit FOR UPDATE
        );
    END IF;
    _gone := cancel_rows(_ns, _rows, 'purged');
    cancelled := _gone.ids;
    IF _gone.awaited IS NOT NULL THEN
        _told := carry_on(_ns, _gone.awaited);
        told_queues := _told.told_queues;
        told_ended := _told.told_ended;
    END IF;
END $$
