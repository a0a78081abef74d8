-- Staging.promote: the pushes of these parts become tasks, state queued, event enqueued; known ids are left alone.
-- Answers with how many were created and known, and the queues they are in; or with a part that is not whole. From _many on
-- they may become part of the store without being copied.
-- Where no id of theirs can be known they are stored as they are. Should one of them turn up meanwhile, that is undone, and
-- done again the careful way, as push does it.
CREATE OR REPLACE FUNCTION stage_promote(_ns text, _job text, _parts text[], _rows bigint[], _many bigint)
RETURNS TABLE (made bigint, left_alone bigint, queues text[], broken text, there bigint) LANGUAGE plpgsql AS $$
DECLARE
    _table text := stage_table(_ns, _job);
    _now float8 := now_seconds();
    _wanted bigint := (SELECT coalesce(sum(n), 0) FROM unnest(_rows) AS n);
    _slotted bigint;
    _more text[];
    _before stage_jobs;
    _is_plain boolean;
    _ids text[];
    _known text[];
    _insert text := 'INSERT INTO messages (ns, id, seq, due_at, enqueued_at, updated_at, expires_at, visibility_timeout,'
        ' priority, place, queue, name, meta, body)'
        ' SELECT $1, s.id, nextval(''task_seq''), coalesce($2 + s.delay_seconds, s.due_at, $2), $2, $2,'
        ' coalesce($2 + s.lifetime_seconds, s.expires_at), s.visibility_timeout, s.priority,'
        ' CASE WHEN coalesce($2 + s.delay_seconds, s.due_at, $2) <= $2 THEN 0 ELSE 1 END, s.queue, s.name,'
        ' coalesce(s.meta, ''{}''), s.body'
        ' FROM %I s WHERE s.part = ANY ($3)';
BEGIN
    -- Events are to follow the places in line, and a scan that joins another one halfway would not.
    PERFORM set_config('synchronize_seqscans', 'off', true);
    INSERT INTO stage_jobs (ns, job, staged_at) VALUES (_ns, _job, _now) ON CONFLICT (ns, job) DO NOTHING;
    SELECT * INTO _before FROM stage_jobs j WHERE j.ns = _ns AND j.job = _job FOR UPDATE;
    IF _before.promoted_at IS NOT NULL THEN
        RETURN QUERY SELECT _before.created, _before.known, '{}'::text[], NULL, NULL::bigint;
        RETURN;
    END IF;

    SELECT u.part, coalesce(p.rows, 0) INTO broken, there
    FROM unnest(_parts, _rows) AS u (part, rows)
    LEFT JOIN stage_parts p ON p.ns = _ns AND p.job = _job AND p.part = u.part
    WHERE u.rows <> coalesce(p.rows, 0) LIMIT 1;
    IF broken IS NOT NULL THEN
        RETURN NEXT;
        RETURN;
    END IF;

    SELECT coalesce(sum(p.slotted), 0) INTO _slotted FROM stage_parts p
    WHERE p.ns = _ns AND p.job = _job AND p.part = ANY (_parts);
    -- What is copied after the slots were attached keeps the others waiting, so it must be little.
    IF _slotted >= _many AND _wanted - _slotted <= _many THEN
        queues := stage_attach(_ns, _job, _parts, _slotted, _now);
    END IF;
    IF queues IS NULL THEN
        IF _slotted > 0 THEN
            PERFORM stage_fold(_ns, _job, _parts);
        END IF;
        _slotted := 0;
        queues := '{}';
    END IF;

    made := 0;
    _wanted := _wanted - _slotted;
    IF _wanted > 0 THEN
        _is_plain := _slotted > 0 OR NOT stage_overlap(_ns, _job, _parts);  -- the slots' own ids are known by now
        IF _is_plain THEN
            BEGIN
                EXECUTE format(_insert, _table) USING _ns, _now, _parts;
                GET DIAGNOSTICS made = ROW_COUNT;
                -- Looked up after the insert, in a later snapshot: a task of such an id may have ended just now, or come in a
                -- table below messages. With the job's own tables there nobody else could write.
                IF _slotted = 0 AND (EXISTS (
                    SELECT FROM stage_parts p JOIN records r ON r.id >= p.low AND r.id <= p.high AND r.ns = _ns
                    WHERE p.ns = _ns AND p.job = _job AND p.part = ANY (_parts)
                ) OR EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = 'messages'::regclass) AND EXISTS (
                    SELECT FROM stage_parts p JOIN messages m ON m.id >= p.low AND m.id <= p.high AND m.ns = _ns
                    WHERE p.ns = _ns AND p.job = _job AND p.part = ANY (_parts) AND m.tableoid <> 'messages'::regclass
                )) THEN
                    RAISE unique_violation;
                END IF;
            EXCEPTION WHEN unique_violation THEN
                _is_plain := false;
            END;
        END IF;
        IF _is_plain AND made <> _wanted THEN
            RAISE EXCEPTION 'the staged pushes of job % are not whole', _job USING ERRCODE = 'data_corrupted';
        END IF;
        IF _is_plain THEN
            EXECUTE format(
                'INSERT INTO events (ns, at, enqueued_at, attempt, kind, task_id, name, queue)'
                ' SELECT $1, $2, $2, 0, ''enqueued'', s.id, s.name, s.queue FROM %I s WHERE s.part = ANY ($3)', _table)
            USING _ns, _now, _parts;
        ELSE
            EXECUTE format('WITH stored AS (' || _insert || ' ON CONFLICT (ns, id) DO NOTHING RETURNING id)'
                           ' SELECT array_agg(id) FROM stored', _table)
            INTO _ids USING _ns, _now, _parts;
            _known := known(_ns, _ids);
            IF _known IS NOT NULL THEN
                DELETE FROM ONLY messages m WHERE m.ns = _ns AND m.id = ANY (_known);
                _ids := ARRAY(SELECT i FROM unnest(_ids) AS i EXCEPT SELECT k FROM unnest(_known) AS k);
            END IF;
            made := coalesce(cardinality(_ids), 0);
            INSERT INTO events (ns, at, enqueued_at, attempt, kind, task_id, name, queue)
            SELECT _ns, _now, _now, 0, 'enqueued', m.id, m.name, m.queue
            FROM messages m WHERE m.ns = _ns AND m.id = ANY (_ids) ORDER BY m.seq;
        END IF;
        EXECUTE format('SELECT array_agg(q.queue) FROM (SELECT s.queue FROM %I s GROUP BY s.queue) q', _table) INTO _more;
        queues := queues || _more;
    END IF;
    left_alone := _wanted - made;
    made := made + _slotted;
    UPDATE stage_jobs j SET promoted_at = _now, created = made, known = left_alone WHERE j.ns = _ns AND j.job = _job;
    RETURN NEXT;
END $$
