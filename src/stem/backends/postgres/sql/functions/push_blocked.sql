-- Broker.push if some tasks wait for others, are joins, or are added to one: does what push does for the rest of the batch.
-- after: ids joined by commas. endings: the payloads of joins. intos: the joins that tasks are added to.
-- Returns the ids created, or null if all were; the ids of joins and others that ended at once, and queues with tasks that were
-- released by that; or why nothing was stored.
-- Members are stored with their dependents, and what waits for them as blocked. Only if some prerequisite has ended already, or a
-- join has none, there is something to decide.
CREATE OR REPLACE FUNCTION push_blocked(
    _ns text, _ids text, _names text, _queues text, _priorities text, _delays text, _not_before text,
    _expires_in text, _expires_at text, _visibility text, _metas text, _bodies text,
    _after text, _on_failure text, _endings text, _intos text, _ttl float8,
    OUT made text[], OUT told_ended text[], OUT told_queues text[], OUT refusal text
) LANGUAGE plpgsql AS $$
DECLARE
    _now float8 := now_seconds();
    ids text[] := cells(_ids);
    names text[] := cells(_names);
    queues text[] := cells(_queues);
    bodies text[] := cells(_bodies);
    after text[] := cells(_after);
    endings text[] := cells(_endings);
    seqs bigint[] := ARRAY(SELECT nextval('task_seq') FROM generate_series(1, cardinality(ids)));
    made_seqs bigint[];
    ended text[];
    before text[];
    entries text[];
    attached record;
    told record;
    has_ended boolean := false;
    each record;
    _number bigint;
BEGIN
    WITH batch AS MATERIALIZED (
        SELECT u.*, string_to_array(u.after, ',') AS prerequisites, u.after IS NOT NULL OR u.ending IS NOT NULL AS waits,
               coalesce(CASE WHEN u.after IS NULL AND u.ending IS NULL THEN _now + u.delay::float8 END, u.not_before::float8, _now)
                   AS due_at
        FROM unnest(ids, seqs, names, queues, cells(_priorities), cells(_delays), cells(_not_before), cells(_expires_in),
                    cells(_expires_at), cells(_visibility), cells(_metas), bodies, after, cells(_on_failure), endings)
             AS u (id, seq, name, queue, priority, delay, not_before, expires_in, expires_at, visibility, meta, body, after,
                   on_failure, ending)
    ), awaited AS MATERIALIZED (
        SELECT p.id, array_agg(b.id || ' ' || b.seq ORDER BY b.seq) AS dependents
        FROM batch b CROSS JOIN LATERAL unnest(b.prerequisites) AS p (id) GROUP BY p.id
    ), stored AS (
        INSERT INTO messages (ns, id, seq, due_at, enqueued_at, updated_at, expires_at, visibility_timeout, priority, place, queue,
                              name, meta, body, dependents, missing, wait_number, on_failure, ending, release_delay)
        SELECT _ns, b.id, b.seq, b.due_at, _now, _now, coalesce(_now + b.expires_in::float8, b.expires_at::float8),
               b.visibility::float8, b.priority::smallint, CASE WHEN b.waits THEN 3 WHEN b.due_at <= _now THEN 0 ELSE 1 END,
               b.queue, b.name, coalesce(b.meta, '{}'), b.body, a.dependents,
               CASE WHEN b.waits THEN coalesce(cardinality(b.prerequisites), 0) END, CASE WHEN b.waits THEN b.seq END,
               CASE WHEN b.waits THEN b.on_failure END, b.ending, CASE WHEN b.waits THEN b.delay::float8 END
        FROM batch b LEFT JOIN awaited a ON a.id = b.id
        ORDER BY b.id COLLATE "C", b.seq
        ON CONFLICT (ns, id) DO NOTHING
        RETURNING id, seq
    )
    SELECT array_agg(id), array_agg(seq) INTO made, made_seqs FROM stored;
    ended := known(_ns, made, _ttl);
    IF ended IS NOT NULL THEN
        DELETE FROM messages WHERE ns = _ns AND id = ANY (ended);
        SELECT array_agg(m.id), array_agg(m.seq) INTO made, made_seqs
        FROM unnest(made, made_seqs) AS m (id, seq) WHERE m.id <> ALL (ended);
    END IF;

    -- Prerequisites that are not of this batch, or come later in it, which are as good as unknown
    SELECT array_agg(p.id), array_agg(b.id || ' ' || b.seq), min(p.id) FILTER (WHERE m.id IS NOT NULL)
    INTO before, entries, refusal
    FROM unnest(ids, seqs, after) AS b (id, seq, after)
    JOIN unnest(made_seqs) AS s (seq) ON s.seq = b.seq
    CROSS JOIN LATERAL unnest(string_to_array(b.after, ',')) AS p (id)
    LEFT JOIN unnest(made, made_seqs) AS m (id, seq) ON m.id = p.id
    WHERE m.id IS NULL OR m.seq >= b.seq;
    IF before IS NOT NULL AND refusal IS NULL THEN
        attached := attach(_ns, before, entries, _ttl);
        refusal := attached.unknown;
        has_ended := attached.has_ended;
    END IF;
    IF refusal IS NOT NULL THEN
        refusal := format('There is no task %s to wait for; nothing was stored. Enqueue it first, or in the same call.', refusal);
        RAISE EXCEPTION USING ERRCODE = 'ST001', MESSAGE = refusal;
    END IF;

    FOR each IN
        SELECT u.into_id, array_agg(u.id) AS members,
               json_object_agg('spawned.' || u.id, true ORDER BY u.seq)::text AS line
        FROM unnest(ids, seqs, cells(_intos)) AS u (id, seq, into_id) JOIN unnest(made_seqs) AS s (seq) ON s.seq = u.seq
        WHERE u.into_id IS NOT NULL GROUP BY u.into_id ORDER BY u.into_id COLLATE "C"
    LOOP
        UPDATE messages m SET missing = m.missing + cardinality(each.members), meta = m.meta || E'\n' || each.line
        WHERE m.ns = _ns AND m.id = each.into_id AND m.wait_number IS NOT NULL AND m.ending <> 'null' AND m.seq <> ALL (made_seqs)
        RETURNING m.wait_number INTO _number;
        IF NOT FOUND THEN  -- one that was cancelled for a failed member can be revived, and goes on counting
            UPDATE revivable v SET missing = v.missing + cardinality(each.members)
            WHERE v.ns = _ns AND v.id = each.into_id AND v.ending <> 'null'
            RETURNING v.wait_number INTO _number;
            UPDATE records r SET meta = r.meta || E'\n' || each.line
            WHERE r.ns = _ns AND r.id = each.into_id AND _number IS NOT NULL;
        END IF;
        IF _number IS NULL THEN
            refusal := format('There is no join %s that still waits for its members; nothing was stored.', each.into_id);
            RAISE EXCEPTION USING ERRCODE = 'ST001', MESSAGE = refusal;
        END IF;
        UPDATE messages m SET dependents = coalesce(m.dependents, '{}') || (each.into_id || ' ' || _number)
        WHERE m.ns = _ns AND m.id = ANY (each.members);
    END LOOP;

    IF has_ended OR EXISTS (
        SELECT FROM unnest(seqs, after, endings) AS u (seq, after, ending)
        WHERE u.after IS NULL AND u.ending IS NOT NULL AND u.seq = ANY (made_seqs)
    ) THEN
        PERFORM push_events(_ns, _now, ids, names, queues, bodies, seqs, made_seqs, NULL);
        SELECT block(_ns, array_agg(DISTINCT u.id), array_agg(u.id ORDER BY u.seq, p.place) FILTER (WHERE p.id IS NOT NULL),
                     array_agg(p.id ORDER BY u.seq, p.place) FILTER (WHERE p.id IS NOT NULL), false)
        INTO told_ended
        FROM unnest(ids, seqs, after, endings) AS u (id, seq, after, ending) JOIN unnest(made_seqs) AS s (seq) ON s.seq = u.seq
        LEFT JOIN LATERAL unnest(string_to_array(u.after, ',')) WITH ORDINALITY AS p (id, place) ON true
        WHERE u.after IS NOT NULL OR u.ending IS NOT NULL;
        told := carry_on(_ns, told_ended);
        told_ended := told_ended || told.told_ended;
        told_queues := told.told_queues;
    ELSE
        PERFORM push_events(_ns, _now, ids, names, queues, bodies, seqs, made_seqs, after);
    END IF;
    IF cardinality(made) = cardinality(ids) THEN
        made := NULL;
    ELSE
        made := coalesce(made, '{}');
        PERFORM pg_logical_emit_message(true, 'stem', '');  -- whoever stored the others may not have flushed them yet
    END IF;
EXCEPTION WHEN SQLSTATE 'ST001' THEN
    made := NULL;
    told_ended := NULL;
    refusal := SQLERRM;
END $$
