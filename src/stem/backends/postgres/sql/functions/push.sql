-- Broker.push without unique keys: store all or none, leave known ids alone, state queued, event enqueued.
-- Returns the ids created, or null if all were. Without _ttl no record is ever outlived: a process from before it goes on
-- calling so.
-- Places in line are given in the order of the batch, rows are stored in the order of their ids: pushes of the same ids in
-- different orders then wait for one another instead of locking each other out.
-- Whether an ended task has the id is looked up after the insert, in a later snapshot: had it been looked up before, a
-- task ending between the two would be stored a second time.
CREATE OR REPLACE FUNCTION push(
    _ns text, _ids text, _names text, _queues text, _priorities text, _delays text, _not_before text,
    _expires_in text, _expires_at text, _visibility text, _metas text, _bodies text, _ttl float8 DEFAULT 'Infinity'
) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    now float8 := now_seconds();
    ids text[] := cells(_ids);
    names text[] := cells(_names);
    queues text[] := cells(_queues);
    bodies text[] := cells(_bodies);
    made text[];
    known text[];
BEGIN
    WITH stored AS (
        INSERT INTO messages (ns, id, seq, due_at, enqueued_at, updated_at, expires_at, visibility_timeout, priority,
                              place, queue, name, meta, body)
        SELECT _ns, g.id, g.seq, g.due_at, now, now,
               coalesce(now + g.expires_in, g.expires_at), g.visibility, g.priority,
               CASE WHEN g.due_at <= now THEN 0 ELSE 1 END, g.queue, g.name, g.meta, g.body
        FROM (
            SELECT nextval('task_seq') AS seq, u.id, u.name, u.queue, u.priority::smallint AS priority,
                   coalesce(now + u.delay::float8, u.not_before::float8, now) AS due_at,
                   u.expires_in::float8 AS expires_in, u.expires_at::float8 AS expires_at,
                   u.visibility::float8 AS visibility, coalesce(u.meta, '{}') AS meta, u.body
            FROM unnest(ids, names, queues, cells(_priorities), cells(_delays), cells(_not_before), cells(_expires_in),
                        cells(_expires_at), cells(_visibility), cells(_metas), bodies)
                 AS u (id, name, queue, priority, delay, not_before, expires_in, expires_at, visibility, meta, body)
            OFFSET 0
        ) g
        ORDER BY g.id COLLATE "C", g.seq
        ON CONFLICT (ns, id) DO NOTHING
        RETURNING id
    )
    SELECT array_agg(id) INTO made FROM stored;

    known := known(_ns, made, _ttl);
    IF known IS NOT NULL THEN
        DELETE FROM messages WHERE ns = _ns AND id = ANY (known);
        SELECT array_agg(m.id) INTO made FROM unnest(made) AS m (id) WHERE m.id <> ALL (known);
    END IF;

    IF cardinality(made) = cardinality(ids) THEN
        INSERT INTO events (ns, at, enqueued_at, attempt, kind, task_id, name, queue, data)
        SELECT _ns, now, now, 0, 'enqueued', u.id, u.name, u.queue, event_data(u.body)
        FROM unnest(ids, names, queues, bodies) WITH ORDINALITY AS u (id, name, queue, body, ord) ORDER BY u.ord;
        RETURN NULL;
    END IF;
    INSERT INTO events (ns, at, enqueued_at, attempt, kind, task_id, name, queue, data)
    SELECT _ns, now, now, 0, 'enqueued', m.id, m.name, m.queue, event_data(m.body)
    FROM messages m WHERE m.ns = _ns AND m.id = ANY (made) ORDER BY m.seq;
    PERFORM pg_logical_emit_message(true, 'stem', '');  -- whoever stored the others may not have flushed them yet
    RETURN coalesce(made, '{}');
END $$
