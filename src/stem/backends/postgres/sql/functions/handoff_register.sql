-- Broker.wait_for_handoff: register a waiting worker, or renew its registration; with no room, withdraw it.
-- Returns the tasks that were handed to the worker and not received, as claim does, their leases begun anew; they are returned
-- again until the worker acknowledges them. The last row has no task, but the store's time; whether a claim would find a task;
-- in how many seconds the next delayed task is due; and why nothing was changed ('busy': a push holds the row at this moment) or
-- registered ('crowded': the table is too large to be read with every push).
CREATE OR REPLACE FUNCTION handoff_register(
    _ns text, _number bigint, _queues text[], _room integer, _lease_seconds float8, _seconds float8, _received text[]
) RETURNS TABLE (
    id text, fence bigint, name text, queue text, attempt integer, deaths integer, body text,
    store_now float8, is_ready boolean, due_in float8, refusal text
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _now float8 := now_seconds();
    _flush text := set_config('synchronous_commit', 'off', true);
    _handed text[];
    _unheard text[] := '{}';
    _is_ready boolean;
    _due_at float8;
    _refusal text;
BEGIN
    IF pg_relation_size('handoffs') > 1000000 THEN  -- a long transaction keeps old row versions
        _refusal := 'crowded';
        _room := 0;
    END IF;
    SELECT h.unacknowledged INTO _handed FROM handoffs h WHERE h.ns = _ns AND h.number = _number FOR UPDATE SKIP LOCKED;
    IF NOT FOUND AND EXISTS (SELECT FROM handoffs h WHERE h.ns = _ns AND h.number = _number) THEN
        _refusal := 'busy';  -- the push may have to wait for another with the same id
    ELSE
        IF _handed <> '{}' THEN
            FOR id, fence, name, queue, attempt, deaths, body IN
                UPDATE messages m
                SET leased_until = greatest(m.leased_until, _now + coalesce(nullif(m.visibility_timeout, 0), _lease_seconds))
                WHERE m.ns = _ns AND m.id = ANY (_handed) AND m.id <> ALL (_received) AND m.place = 2
                  AND m.fence = (m.enqueued_at * 1000000)::bigint  -- a later fence is a claim's
                RETURNING m.id, m.fence, m.name, m.queue, m.attempt, m.deaths, m.body
            LOOP
                _unheard := _unheard || id;
                RETURN NEXT;
            END LOOP;
        END IF;
        IF _room > 0 AND _handed IS NULL THEN
            DELETE FROM handoffs h WHERE h.ns = _ns AND h.expires_at < _now - 60;  -- of workers that ended without withdrawing
            INSERT INTO handoffs (ns, number, expires_at, lease_seconds, free_slots, queues, unacknowledged)
            VALUES (_ns, _number, _now + _seconds, _lease_seconds, _room, _queues, '{}')
            ON CONFLICT (ns, number) DO UPDATE SET expires_at = _now, free_slots = 0;  -- a call that timed out was first
        ELSIF _room > 0 OR _unheard <> '{}' THEN
            UPDATE handoffs h
            SET expires_at = _now + _seconds, lease_seconds = _lease_seconds, queues = _queues, unacknowledged = _unheard,
                free_slots = greatest(0, _room - cardinality(_unheard))
            WHERE h.ns = _ns AND h.number = _number;
        ELSE
            DELETE FROM handoffs h WHERE h.ns = _ns AND h.number = _number;
        END IF;
    END IF;
    SELECT bool_or(r.seq IS NOT NULL), min(d.due_at) INTO _is_ready, _due_at
    FROM unnest(_queues) AS q (name) LEFT JOIN LATERAL (
        SELECT m.seq FROM messages m WHERE m.ns = _ns AND m.queue = q.name AND m.place = 0
        ORDER BY m.priority DESC, m.seq LIMIT 1
    ) r ON true LEFT JOIN LATERAL (
        SELECT m.due_at FROM messages m WHERE m.ns = _ns AND m.queue = q.name AND m.place = 1 ORDER BY m.due_at LIMIT 1
    ) d ON true;
    id := NULL;
    store_now := _now;
    is_ready := coalesce(_is_ready, false);
    due_in := _due_at - _now;
    refusal := _refusal;
    RETURN NEXT;
END $$
