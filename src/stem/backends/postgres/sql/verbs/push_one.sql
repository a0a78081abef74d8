-- Broker.push of one task without a unique key, which most are: what push does, without the cost of a batch.
-- True: it was created. False: a task has that id, waiting, running or ended.
-- Where the channels are given, those who wait are told in the same transaction, and it is not flushed: tellers commit one at a
-- time, and must not wait for the disk meanwhile. The sender has it flushed (asks/flush.sql) before he says that it is stored.
CREATE OR REPLACE FUNCTION push_one(
    _ns text, _id text, _name text, _queue text, _priority integer, _delay float8, _not_before float8,
    _expires_in float8, _expires_at float8, _visibility float8, _meta text, _body text,
    _work text, _news text, _log text
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    _now float8 := now_seconds();
    _due_at float8 := coalesce(_now + _delay, _not_before, _now);
BEGIN
    INSERT INTO messages (ns, id, seq, due_at, enqueued_at, updated_at, expires_at, visibility_timeout, priority,
                          place, queue, name, meta, body)
    VALUES (_ns, _id, nextval('task_seq'), _due_at, _now, _now, coalesce(_now + _expires_in, _expires_at), _visibility,
            _priority, CASE WHEN _due_at <= _now THEN 0 ELSE 1 END, _queue, _name, coalesce(_meta, '{}'), _body)
    ON CONFLICT (ns, id) DO NOTHING;
    IF NOT FOUND THEN
        PERFORM pg_logical_emit_message(true, 'stem', '');  -- whoever stored it may not have flushed it yet
        RETURN false;
    END IF;
    -- After the insert, in a later snapshot: a task may have ended between the two. Of the tables below messages no index of
    -- its own knows.
    IF EXISTS (SELECT FROM records r WHERE r.ns = _ns AND r.id = _id)
       OR (EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = 'messages'::regclass)
           AND EXISTS (SELECT FROM messages m WHERE m.ns = _ns AND m.id = _id AND m.tableoid <> 'messages'::regclass)) THEN
        DELETE FROM ONLY messages m WHERE m.ns = _ns AND m.id = _id;
        RETURN false;
    END IF;
    INSERT INTO events (ns, at, enqueued_at, attempt, kind, task_id, name, queue)
    VALUES (_ns, _now, _now, 0, 'enqueued', _id, _name, _queue);
    IF _work IS NOT NULL THEN
        PERFORM set_config('synchronous_commit', 'off', true), pg_notify(_work, _news), pg_notify(_log, '{"logged":true}');
    END IF;
    RETURN true;
END $$
