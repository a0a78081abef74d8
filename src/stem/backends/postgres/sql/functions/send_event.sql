-- Steps.send: keep an event for a task that has not ended; the first of a name stays. A task that waits for it is due at once.
-- Returns whether there is such a task, and the queue in which it has become due, if it has.
-- The task is locked, so that a settlement that begins to wait either finds the event or is found waiting.
CREATE OR REPLACE FUNCTION send_event(
    _ns text, _id text, _event text, _data text, OUT is_there boolean, OUT due_queue text
) LANGUAGE plpgsql AS $$
DECLARE
    _now float8 := now_seconds();
    _row tid;
BEGIN
    SELECT m.ctid INTO _row FROM messages m WHERE m.ns = _ns AND m.id = _id FOR UPDATE;
    is_there := FOUND;
    IF NOT is_there THEN
        RETURN;
    END IF;
    INSERT INTO steps (ns, id, name, at, payload) VALUES (_ns, _id, 'event:' || _event, _now, _data)
    ON CONFLICT (id, ns, name) DO NOTHING;
    UPDATE messages m SET place = 0, due_at = _now, awaited_event = NULL
    WHERE m.ctid = _row AND m.awaited_event = _event AND m.place IN (0, 1)
    RETURNING m.queue INTO due_queue;
END $$
