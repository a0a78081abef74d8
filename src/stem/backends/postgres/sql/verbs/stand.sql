-- Broker.stand_by: take a seat, or keep it, for so many tasks and seconds; with room for none, leave it.
-- Answers as claim does with what it was handed and has not heard of, its leases begun anew; again and again, until it says that
-- it has heard. The last row is without an id: its fence is the time, its attempt is 1 if a claim would find something, and its
-- body says in how many seconds the next delayed task is due. Its deaths are 1 if the seat is as it was, because somebody has it at
-- this moment, and 2 if nobody can sit here for now.
CREATE OR REPLACE FUNCTION stand(
    _ns text, _number bigint, _queues text[], _room integer, _lease float8, _seconds float8, _heard text[]
) RETURNS TABLE (id text, fence bigint, name text, queue text, attempt integer, deaths integer, body text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _now float8 := now_seconds();
    _flush text := set_config('synchronous_commit', 'off', true);
    _given text[];
    _left text[] := '{}';
    _is_ready boolean;
    _due_at float8;
    _refusal integer := 0;
BEGIN
    IF pg_relation_size('seats') > 1000000 THEN  -- a long transaction keeps what is over; each push would look at all of it
        _refusal := 2;
        _room := 0;
    END IF;
    SELECT s.given INTO _given FROM seats s WHERE s.ns = _ns AND s.number = _number FOR UPDATE SKIP LOCKED;
    IF NOT FOUND AND EXISTS (SELECT FROM seats s WHERE s.ns = _ns AND s.number = _number) THEN
        _refusal := 1;  -- somebody pushes, and may have to wait for another with the same id
    ELSE
        IF _given <> '{}' THEN
            FOR id, fence, name, queue, attempt, deaths, body IN
                UPDATE messages m
                SET leased_until = greatest(m.leased_until, _now + coalesce(nullif(m.visibility_timeout, 0), _lease))
                WHERE m.ns = _ns AND m.id = ANY (_given) AND m.id <> ALL (_heard) AND m.place = 2
                  AND m.fence = (m.enqueued_at * 1000000)::bigint  -- one of another moment is another's
                RETURNING m.id, m.fence, m.name, m.queue, m.attempt, m.deaths, m.body
            LOOP
                _left := _left || id;
                RETURN NEXT;
            END LOOP;
        END IF;
        IF _room > 0 AND _given IS NULL THEN
            DELETE FROM seats s WHERE s.ns = _ns AND s.until < _now - 60;  -- of those who left without a word
            INSERT INTO seats (ns, number, until, lease, free, queues, given)
            VALUES (_ns, _number, _now + _seconds, _lease, _room, _queues, '{}')
            ON CONFLICT (ns, number) DO UPDATE SET until = _now, free = 0;  -- a call that nobody waits for any more was first
        ELSIF _room > 0 OR _left <> '{}' THEN
            UPDATE seats s
            SET until = _now + _seconds, lease = _lease, free = greatest(0, _room - cardinality(_left)), queues = _queues,
                given = _left
            WHERE s.ns = _ns AND s.number = _number;
        ELSE
            DELETE FROM seats s WHERE s.ns = _ns AND s.number = _number;
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
    fence := _now * 1000000;
    attempt := coalesce(_is_ready, false)::integer;
    deaths := _refusal;
    body := (_due_at - _now)::text;
    RETURN NEXT;
END $$
