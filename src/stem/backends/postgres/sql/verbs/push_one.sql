-- Broker.push of one task without a unique key, which most are: what push does, without the cost of a batch.
-- True: it was created. False: a task has that id, waiting, running or ended.
-- Where the channels are given, those who wait are told in the same transaction, and it is not flushed: tellers commit one at a
-- time, and must not wait for the disk meanwhile. The sender has it flushed (asks/flush.sql) before he says that it is stored.
-- If a worker has a seat (verbs/stand.sql) and nothing is ahead of the task, it is leased to that worker, who is told the whole
-- task on a channel of his own, as an array of its id, fence, name and queue, and on the next line its body.
CREATE OR REPLACE FUNCTION push_one(
    _ns text, _id text, _name text, _queue text, _priority integer, _delay float8, _not_before float8,
    _expires_in float8, _expires_at float8, _visibility float8, _meta text, _body text,
    _work text, _news text, _log text
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    _now float8 := now_seconds();
    _due_at float8 := coalesce(_now + _delay, _not_before, _now);
    _fence bigint := _now * 1000000;
    _seat bigint;
    _lease float8;
    _handed text;
BEGIN
    IF _work IS NOT NULL AND _due_at <= _now AND _expires_in IS NULL AND _expires_at IS NULL THEN
        SELECT s.number, s.lease INTO _seat, _lease FROM seats s
        WHERE s.ns = _ns AND s.free > 0 AND s.until > _now AND _queue = ANY (s.queues)
        ORDER BY s.free DESC LIMIT 1 FOR UPDATE SKIP LOCKED;
        IF _seat IS NOT NULL THEN
            _handed := json_build_array(_id, _fence, _name, _queue)::text || E'\n' || _body;
            IF pg_try_advisory_xact_lock(_seat) THEN
                UPDATE seats s SET free = 0 WHERE s.ns = _ns AND s.number = _seat;  -- not what it was given: he may ask for it
                _seat := NULL;
            ELSIF octet_length(_handed) > 7900 OR EXISTS (  -- a notification takes less than 8000
                SELECT FROM messages m WHERE m.ns = _ns AND m.queue = _queue AND m.place = 0
            ) THEN
                _seat := NULL;
            END IF;
        END IF;
    END IF;
    INSERT INTO messages (ns, id, seq, fence, due_at, enqueued_at, updated_at, leased_until, expires_at, visibility_timeout,
                          priority, place, queue, name, meta, body)
    VALUES (_ns, _id, nextval('task_seq'), CASE WHEN _seat IS NULL THEN 0 ELSE _fence END, _due_at, _now, _now,
            CASE WHEN _seat IS NOT NULL THEN _now + coalesce(nullif(_visibility, 0), _lease) END,
            coalesce(_now + _expires_in, _expires_at), _visibility, _priority,
            CASE WHEN _seat IS NOT NULL THEN 2 WHEN _due_at <= _now THEN 0 ELSE 1 END,
            _queue, _name, coalesce(_meta, '{}'), _body)
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
    IF _seat IS NOT NULL THEN
        UPDATE seats s SET free = s.free - 1, given = s.given || _id WHERE s.ns = _ns AND s.number = _seat;
        _work := _work || '_' || _seat;
        _news := _handed;
    END IF;
    IF _work IS NOT NULL THEN
        PERFORM set_config('synchronous_commit', 'off', true), pg_notify(_work, _news), pg_notify(_log, '{"logged":true}');
    END IF;
    RETURN true;
END $$
