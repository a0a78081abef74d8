-- Broker.stand_by: take a seat, or keep it, for so many tasks and seconds; with room for none, leave it.
-- Answers as claim does with what it was handed and has not heard of. The last row is without an id: its attempt is 1 if a claim
-- would find something, and its body says in how many seconds the next delayed task is due, null if none is delayed.
CREATE OR REPLACE FUNCTION stand(
    _ns text, _number bigint, _queues text[], _room integer, _lease float8, _seconds float8, _heard text[]
) RETURNS TABLE (id text, fence bigint, name text, queue text, attempt integer, deaths integer, body text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _now float8 := now_seconds();
    _given text[];
    _is_ready boolean;
    _due_at float8;
    _flush text := set_config('synchronous_commit', 'off', true);
BEGIN
    SELECT s.given INTO _given FROM seats s WHERE s.ns = _ns AND s.number = _number FOR UPDATE;
    IF _room <= 0 THEN
        DELETE FROM seats s WHERE s.ns = _ns AND s.number = _number;
    ELSIF FOUND THEN
        UPDATE seats s SET until = _now + _seconds, lease = _lease, free = _room, queues = _queues, given = '{}'
        WHERE s.ns = _ns AND s.number = _number;
    ELSE
        DELETE FROM seats s WHERE s.ns = _ns AND s.until < _now - 60;  -- of those who left without a word
        INSERT INTO seats (ns, number, until, lease, free, queues, given)
        VALUES (_ns, _number, _now + _seconds, _lease, _room, _queues, '{}');
    END IF;
    IF _given <> '{}' THEN  -- a fence of another moment is another's: the lease had run out
        RETURN QUERY
        SELECT m.id, m.fence, m.name, m.queue, m.attempt, m.deaths, m.body FROM messages m
        WHERE m.ns = _ns AND m.id = ANY (_given) AND m.id <> ALL (_heard) AND m.place = 2
          AND m.fence = (m.enqueued_at * 1000000)::bigint
        ORDER BY m.seq;
    END IF;
    SELECT bool_or(r.seq IS NOT NULL), min(d.due_at) INTO _is_ready, _due_at
    FROM unnest(_queues) AS q (name) LEFT JOIN LATERAL (
        SELECT m.seq FROM messages m WHERE m.ns = _ns AND m.queue = q.name AND m.place = 0
        ORDER BY m.priority DESC, m.seq LIMIT 1
    ) r ON true LEFT JOIN LATERAL (
        SELECT m.due_at FROM messages m WHERE m.ns = _ns AND m.queue = q.name AND m.place = 1 ORDER BY m.due_at LIMIT 1
    ) d ON true;
    id := NULL;
    attempt := coalesce(_is_ready, false)::integer;
    body := (_due_at - _now)::text;
    RETURN NEXT;
END $$
