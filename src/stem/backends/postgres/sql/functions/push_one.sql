-- Broker.push of one task without a unique key, the most frequent push: does what push does, without the cost of a batch.
-- Returns true if the task was created, false if a task with its id waits, runs or has ended.
-- If channels are given, waiting workers are notified in the same transaction, and its commit is not flushed: transactions
-- that notify commit one at a time, and must not wait for the disk meanwhile. The caller flushes it (queries/flush.sql) before it
-- reports the task as stored.
-- If a worker is registered for handoff (functions/handoff_register.sql) and no task is ahead of this one, it is leased to that
-- worker and sent to it on the worker's channel: an array of id, fence, name and queue, and on the next line the body.
CREATE OR REPLACE FUNCTION push_one(
    _ns text, _id text, _name text, _queue text, _priority integer, _delay float8, _not_before float8,
    _expires_in float8, _expires_at float8, _visibility float8, _meta text, _body text,
    _work text, _notification text, _log text, _ttl float8 DEFAULT 'Infinity'
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    _now float8 := now_seconds();
    _due_at float8 := coalesce(_now + _delay, _not_before, _now);
    _fence bigint := _now * 1000000;
    _number bigint;
    _lease_seconds float8;
    _handed text;
BEGIN
    IF _work IS NOT NULL AND _due_at <= _now AND _expires_in IS NULL AND _expires_at IS NULL THEN
        SELECT h.number, h.lease_seconds INTO _number, _lease_seconds FROM handoffs h
        WHERE h.ns = _ns AND h.free_slots > 0 AND h.expires_at > _now AND _queue = ANY (h.queues)
        ORDER BY h.free_slots DESC LIMIT 1 FOR UPDATE SKIP LOCKED;
        IF _number IS NOT NULL THEN
            _handed := json_build_array(_id, _fence, _name, _queue)::text || E'\n' || _body;
            IF pg_try_advisory_xact_lock(_number) THEN  -- its connection is gone; what it was handed stays listed
                UPDATE handoffs h SET free_slots = 0 WHERE h.ns = _ns AND h.number = _number;
                _number := NULL;
            ELSIF octet_length(_handed) > 7900 OR EXISTS (  -- a notification takes less than 8000
                SELECT FROM messages m WHERE m.ns = _ns AND m.queue = _queue AND m.place = 0
            ) THEN
                _number := NULL;
            END IF;
        END IF;
    END IF;
    INSERT INTO messages (ns, id, seq, fence, due_at, enqueued_at, updated_at, leased_until, expires_at, visibility_timeout,
                          priority, place, queue, name, meta, body)
    VALUES (_ns, _id, nextval('task_seq'), CASE WHEN _number IS NULL THEN 0 ELSE _fence END, _due_at, _now, _now,
            CASE WHEN _number IS NOT NULL THEN _now + coalesce(nullif(_visibility, 0), _lease_seconds) END,
            coalesce(_now + _expires_in, _expires_at), _visibility, _priority,
            CASE WHEN _number IS NOT NULL THEN 2 WHEN _due_at <= _now THEN 0 ELSE 1 END,
            _queue, _name, coalesce(_meta, '{}'), _body)
    ON CONFLICT (ns, id) DO NOTHING;
    IF NOT FOUND THEN
        PERFORM pg_logical_emit_message(true, 'stem', '');  -- whoever stored it may not have flushed it yet
        RETURN false;
    END IF;
    -- After the insert, in a later snapshot: a task may have ended between the two.
    IF EXISTS (SELECT FROM records r WHERE r.ns = _ns AND r.id = _id) AND known(_ns, ARRAY[_id], _ttl) IS NOT NULL THEN
        DELETE FROM messages m WHERE m.ns = _ns AND m.id = _id;
        RETURN false;
    END IF;
    INSERT INTO events (ns, at, enqueued_at, attempt, kind, task_id, name, queue, data)
    VALUES (_ns, _now, _now, 0, 'enqueued', _id, _name, _queue, event_data(_body));
    IF _number IS NOT NULL THEN
        UPDATE handoffs h SET free_slots = h.free_slots - 1, unacknowledged = h.unacknowledged || _id
        WHERE h.ns = _ns AND h.number = _number;
        _work := _work || '_' || _number;
        _notification := _handed;
    END IF;
    IF _work IS NOT NULL THEN
        PERFORM set_config('synchronous_commit', 'off', true), pg_notify(_work, _notification), pg_notify(_log, '{"logged":true}');
    END IF;
    RETURN true;
END $$
