-- Broker.reclaim: take back tasks whose lease has expired, oldest first; after too many deaths a task becomes a dead letter. Before
-- that, whatever the grace, goes on with the cancellations that earlier calls have left.
-- Rows without is_dead tell what became of tasks that waited for others: the id of one that has ended, or a queue with new work.
CREATE OR REPLACE FUNCTION reclaim(_ns text, _limit integer, _max_deaths integer, _grace float8 DEFAULT 0)
RETURNS TABLE (id text, queue text, is_dead boolean) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _now float8 := now_seconds();
    _rows tid[];
    _records records[];
    _keys text[];
    _dead text[];
    _awaited text[];
    _told record;
BEGIN
    IF EXISTS (SELECT FROM cascades c WHERE c.ns = _ns) THEN
        RETURN QUERY SELECT t.id, t.queue, NULL::boolean FROM resume_cascades(_ns) t;
    END IF;
    IF _grace > 0 AND NOT watched(_ns, _now, _grace) THEN
        RETURN;
    END IF;
    SELECT array_agg(x.ctid) INTO _rows FROM (
        SELECT m.ctid FROM messages m
        WHERE m.ns = _ns AND m.place = 2 AND m.leased_until <= _now
        ORDER BY m.leased_until, m.seq LIMIT _limit FOR UPDATE SKIP LOCKED
    ) x;
    IF _rows IS NULL THEN
        RETURN;
    END IF;
    SELECT array_agg(ROW(ns, id, seq, fence, enqueued_at, _now, started_at, _now, heartbeat_at, NULL, attempt, priority, 'failed',
                         queue, name, worker, NULL, worker_lost(worker, true), progress, meta,
                         dependents, NULL, NULL)::records),
           array_agg(id), array_agg(id) FILTER (WHERE dependents IS NOT NULL), array_agg(unique_key) FILTER (WHERE unique_key IS NOT NULL)
    INTO _records, _dead, _awaited, _keys
    FROM messages m WHERE m.ctid = ANY (_rows) AND m.deaths + (m.started_at IS NOT NULL)::integer >= _max_deaths;
    IF _dead IS NOT NULL THEN
        PERFORM file_records(_records);
        PERFORM release_keys(_ns, _keys, _dead);
    END IF;
    RETURN QUERY
    WITH late AS MATERIALIZED (
        SELECT m.ctid AS row, m.*, m.deaths + (m.started_at IS NOT NULL)::integer AS count FROM messages m WHERE m.ctid = ANY (_rows)
    ), again AS (
        UPDATE messages m
        SET place = 0, due_at = _now, leased_until = NULL, worker = NULL, started_at = NULL, updated_at = _now,
            deaths = late.count
        FROM late WHERE m.ctid = ANY (_rows) AND m.ctid = late.row AND late.count < _max_deaths
    ), missed AS (
        INSERT INTO lost (ns, id, fence, at) SELECT ns, id, fence, _now FROM late
        WHERE started_at IS NOT NULL AND count < _max_deaths
        ON CONFLICT (ns, id, fence) DO NOTHING
    ), gone AS (
        DELETE FROM messages m WHERE m.ctid = ANY (ARRAY(SELECT row FROM late WHERE count >= _max_deaths))
    ), lettered AS (
        INSERT INTO dead (ns, id, seq, dead_at, visibility_timeout, attempt, name, queue, reason, error, meta, body)
        SELECT ns, id, nextval('dead_seq_no'), _now, visibility_timeout, attempt, name, queue, 'crash-loop',
               worker_lost(worker, true), json_build_object('deaths', count, 'runs', attempt + count)::text, body
        FROM late WHERE count >= _max_deaths ORDER BY leased_until, seq
    ), logged AS (
        INSERT INTO events (ns, at, enqueued_at, started_at, attempt, kind, task_id, name, queue, worker, data)
        SELECT ns, _now, enqueued_at, started_at, attempt, kind, id, name, queue, worker, event_data(body, data)
        FROM (
            SELECT late.*, 0 AS step, 'requeued' AS kind, '{"reason":"lease-expired"}' AS data
            FROM late WHERE count < _max_deaths
            UNION ALL
            SELECT late.*, step, CASE step WHEN 1 THEN 'failed' ELSE 'dead-lettered' END,
                   '{"reason":"crash-loop","error":' || worker_lost(worker, false) || '}'
            FROM late CROSS JOIN generate_series(1, 2) AS step WHERE count >= _max_deaths
        ) lines
        ORDER BY leased_until, seq, step
    )
    SELECT id, queue, count >= _max_deaths FROM late ORDER BY leased_until, seq;
    IF _awaited IS NOT NULL THEN
        _told := carry_on(_ns, _awaited);
        RETURN QUERY SELECT e.id, NULL, NULL::boolean FROM unnest(_told.told_ended) AS e (id);
        RETURN QUERY SELECT NULL, q.name, NULL::boolean FROM unnest(_told.told_queues) AS q (name);
    END IF;
END $$
