-- Broker.reclaim: take back tasks whose lease has run out, oldest first; one that has killed too often is a dead letter.
CREATE OR REPLACE FUNCTION reclaim(_ns text, _limit integer, _max_deaths integer, _grace float8 DEFAULT 0)
RETURNS TABLE (id text, queue text, is_dead boolean) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _now float8 := now_seconds();
    _rows tid[];
    _ids text[];
    _keys text[];
    _lost text[];
BEGIN
    IF _grace > 0 AND NOT watched(_ns, _now, _grace) THEN
        RETURN;
    END IF;
    SELECT array_agg(x.ctid), array_agg(x.id) INTO _rows, _ids FROM (
        SELECT m.ctid, m.id FROM messages m
        WHERE m.ns = _ns AND m.place = 2 AND m.leased_until <= _now
        ORDER BY m.leased_until, m.seq LIMIT _limit FOR UPDATE SKIP LOCKED
    ) x;
    IF _rows IS NULL THEN
        RETURN;
    END IF;
    SELECT array_agg(m.unique_key), array_agg(m.id) INTO _keys, _lost FROM messages m JOIN unnest(_ids) AS h (id) ON h.id = m.id || ''
    WHERE m.ctid = ANY (_rows) AND m.ns || '' = _ns AND m.unique_key IS NOT NULL
      AND m.deaths + (m.started_at IS NOT NULL)::integer >= _max_deaths;
    IF _keys IS NOT NULL THEN
        PERFORM release_keys(_ns, _keys, _lost);
    END IF;
    RETURN QUERY
    WITH late AS MATERIALIZED (
        SELECT m.*, m.deaths + (m.started_at IS NOT NULL)::integer AS count,
               format('Worker %s was lost while it ran the task.', coalesce(worker, 'None')) AS message
        FROM messages m JOIN unnest(_ids) AS h (id) ON h.id = m.id || '' WHERE m.ctid = ANY (_rows) AND m.ns || '' = _ns
    ), again AS (
        UPDATE messages m
        SET place = 0, due_at = _now, leased_until = NULL, worker = NULL, started_at = NULL, updated_at = _now,
            deaths = late.count
        FROM late WHERE m.ctid = ANY (_rows) AND m.ns || '' = _ns AND m.id || '' = late.id AND late.count < _max_deaths
    ), missed AS (
        INSERT INTO lost (ns, id, fence, at) SELECT ns, id, fence, _now FROM late
        WHERE started_at IS NOT NULL AND count < _max_deaths
        ON CONFLICT (ns, id, fence) DO NOTHING
    ), gone AS (
        DELETE FROM messages m USING late
        WHERE m.ctid = ANY (_rows) AND m.ns || '' = _ns AND m.id || '' = late.id AND late.count >= _max_deaths
    ), lost AS MATERIALIZED (
        SELECT late.*,
               json_build_object('type', 'WorkerLost', 'message', message, 'stack', '', 'retryable', true)::text AS obituary
        FROM late WHERE count >= _max_deaths
    ), filed AS (
        INSERT INTO records (ns, id, seq, fence, enqueued_at, updated_at, started_at, finished_at, heartbeat_at, attempt,
                             priority, state, queue, name, worker, error, progress, meta)
        SELECT ns, id, seq, fence, enqueued_at, _now, started_at, _now, heartbeat_at, attempt, priority, 'failed', queue,
               name, worker, obituary, progress, meta
        FROM lost
        ON CONFLICT (id, ns) DO UPDATE  -- a record saved while the task was being pushed
        SET seq = excluded.seq, fence = excluded.fence, enqueued_at = excluded.enqueued_at,
            updated_at = excluded.updated_at, started_at = excluded.started_at, finished_at = excluded.finished_at,
            heartbeat_at = excluded.heartbeat_at, kept_from = excluded.kept_from, attempt = excluded.attempt,
            priority = excluded.priority, state = excluded.state, queue = excluded.queue, name = excluded.name,
            worker = excluded.worker, payload = excluded.payload, error = excluded.error, progress = excluded.progress,
            meta = excluded.meta
    ), buried AS (
        INSERT INTO dead (ns, id, seq, dead_at, visibility_timeout, attempt, name, queue, reason, error, meta, body)
        SELECT ns, id, nextval('dead_seq_no'), _now, visibility_timeout, attempt, name, queue, 'crash-loop', obituary,
               json_build_object('deaths', count, 'runs', attempt + count)::text, body
        FROM lost ORDER BY leased_until, seq
    ), told AS (
        INSERT INTO events (ns, at, enqueued_at, started_at, attempt, kind, task_id, name, queue, worker, data)
        SELECT ns, _now, enqueued_at, started_at, attempt, kind, id, name, queue, worker, data
        FROM (
            SELECT late.*, 0 AS step, 'requeued' AS kind, '{"reason":"lease-expired"}' AS data
            FROM late WHERE count < _max_deaths
            UNION ALL
            SELECT late.*, step, CASE step WHEN 1 THEN 'failed' ELSE 'dead-lettered' END,
                   json_build_object('reason', 'crash-loop', 'error', json_build_object(
                       'type', 'WorkerLost', 'message', left(message, 500), 'retryable', true))::text
            FROM late CROSS JOIN generate_series(1, 2) AS step WHERE count >= _max_deaths
        ) lines
        ORDER BY leased_until, seq, step
    )
    SELECT id, queue, count >= _max_deaths FROM late ORDER BY leased_until, seq;
END $$
