-- Staging.promote: make the pushes of these parts tasks, all or none: state queued, event enqueued; known ids are left alone.
-- Returns how many were created and known, and their queues, or null if the job was promoted before; or an incomplete part, and how
-- many of its pushes are there.
CREATE OR REPLACE FUNCTION stage_promote(_ns text, _job text, _parts text[], _rows bigint[], _ttl float8)
RETURNS TABLE (made bigint, left_alone bigint, queues text[], broken text, there bigint) LANGUAGE plpgsql AS $$
DECLARE
    _table text;
    _now float8 := now_seconds();
    _before stage_jobs;
    _ended text[];
    _undone bigint;
BEGIN
    PERFORM stage_touch(_ns, _job);
    SELECT * INTO _before FROM stage_jobs j WHERE j.ns = _ns AND j.job = _job FOR UPDATE;
    IF _before.promoted_at IS NOT NULL THEN
        RETURN QUERY SELECT _before.created, _before.known, NULL::text[], NULL, NULL::bigint;
        RETURN;
    END IF;
    _table := stage_open(_ns, _job);
    EXECUTE format('SELECT u.part, coalesce(s.rows, 0) FROM unnest($1, $2) AS u (part, rows)'
                   ' LEFT JOIN (SELECT part, count(*) AS rows FROM %I GROUP BY part) s ON s.part = u.part'
                   ' WHERE u.rows <> coalesce(s.rows, 0) LIMIT 1', _table)
    INTO broken, there USING _parts, _rows;
    IF broken IS NOT NULL THEN
        RETURN NEXT;
        RETURN;
    END IF;

    -- Places in line and events follow the rows; a scan that joins another one halfway would not.
    PERFORM set_config('synchronize_seqscans', 'off', true);
    EXECUTE format(
        'WITH stored AS ('
        ' INSERT INTO messages (ns, id, seq, due_at, enqueued_at, updated_at, expires_at, visibility_timeout, priority, place,'
        '                       queue, name, meta, body)'
        ' SELECT $1, s.id, nextval(''task_seq''), coalesce($2 + s.delay_seconds, s.due_at, $2), $2, $2,'
        '        coalesce($2 + s.lifetime_seconds, s.expires_at), s.visibility_timeout, s.priority,'
        '        CASE WHEN coalesce($2 + s.delay_seconds, s.due_at, $2) <= $2 THEN 0 ELSE 1 END, s.queue, s.name,'
        '        coalesce(s.meta, ''{}''), s.body'
        ' FROM %I s WHERE s.part = ANY ($3)'
        ' ON CONFLICT (id, ns) DO NOTHING RETURNING id, name, queue, body'
        '), logged AS ('
        ' INSERT INTO events (ns, at, enqueued_at, attempt, kind, task_id, name, queue, data)'
        ' SELECT $1, $2, $2, 0, ''enqueued'', id, name, queue, event_data(body) FROM stored'
        ') SELECT coalesce(sum(q.rows), 0), coalesce(array_agg(q.queue), ''{}'')'
        ' FROM (SELECT queue, count(*) AS rows FROM stored GROUP BY queue) q', _table)
    INTO made, queues USING _ns, _now, _parts;

    -- After the insert, in a later snapshot: a task of such an id may have ended between the two. The events of this
    -- transaction tell which of them were stored here. OFFSET keeps the look-up lateral: by the primary key, as in held.
    EXECUTE format('SELECT array_agg(s.id) FROM %I s CROSS JOIN LATERAL ('
                   ' SELECT FROM records r WHERE r.ns = $1 AND r.id = s.id OFFSET 0) r WHERE s.part = ANY ($2)', _table)
    INTO _ended USING _ns, _parts;
    _ended := known(_ns, _ended, _ttl);
    IF _ended IS NOT NULL THEN
        WITH undone AS (
            DELETE FROM events e USING unnest(_ended) AS u (id)
            WHERE e.ns = _ns AND e.txid = pg_current_xact_id() AND e.task_id = u.id RETURNING e.task_id
        )
        DELETE FROM messages m WHERE m.ns = _ns AND m.id = ANY (ARRAY(SELECT task_id FROM undone));
        GET DIAGNOSTICS _undone = ROW_COUNT;
        made := made - _undone;
    END IF;
    left_alone := (SELECT coalesce(sum(n), 0) FROM unnest(_rows) AS n) - made;
    UPDATE stage_jobs j SET promoted_at = _now, created = made, known = left_alone WHERE j.ns = _ns AND j.job = _job;
    RETURN NEXT;
END $$
