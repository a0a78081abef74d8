-- Part of Broker.cancel and purge: end these rows, which are locked and wait; event revoked. Answers with their ids.
CREATE OR REPLACE FUNCTION cancel_rows(_ns text, rows tid[], ids text[], _reason text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    _now float8 := now_seconds();
    gone_ids text[];
    keys text[];
BEGIN
    WITH gone AS (
        DELETE FROM messages m USING unnest(ids) AS h (id) WHERE m.ctid = ANY (rows) AND m.ns || '' = _ns AND m.id || '' = h.id
        RETURNING m.*
    ), filed AS (
        INSERT INTO records (ns, id, seq, fence, enqueued_at, updated_at, started_at, finished_at, heartbeat_at, kept_from,
                             attempt, priority, state, queue, name, worker, error, progress, meta)
        SELECT ns, id, seq, fence, enqueued_at, _now, started_at, _now, heartbeat_at, _now, attempt, priority,
               'cancelled', queue, name, worker,
               json_build_object('type', 'Cancelled', 'message', _reason, 'stack', '', 'retryable', false)::text, progress, meta
        FROM gone
        ON CONFLICT (id, ns) DO UPDATE  -- a record saved while the task was being pushed
        SET seq = excluded.seq, fence = excluded.fence, enqueued_at = excluded.enqueued_at,
            updated_at = excluded.updated_at, started_at = excluded.started_at, finished_at = excluded.finished_at,
            heartbeat_at = excluded.heartbeat_at, kept_from = excluded.kept_from, attempt = excluded.attempt,
            priority = excluded.priority, state = excluded.state, queue = excluded.queue, name = excluded.name,
            worker = excluded.worker, payload = excluded.payload, error = excluded.error, progress = excluded.progress,
            meta = excluded.meta
    ), told AS (
        INSERT INTO events (ns, at, enqueued_at, started_at, attempt, kind, task_id, name, queue, worker, data)
        SELECT ns, _now, enqueued_at, started_at, attempt, 'revoked', id, name, queue, worker, json_build_object('reason', _reason)::text
        FROM gone ORDER BY seq
    )
    SELECT array_agg(id), array_agg(unique_key) FILTER (WHERE unique_key IS NOT NULL) INTO gone_ids, keys FROM gone;
    IF keys IS NOT NULL THEN
        PERFORM release_keys(_ns, keys, gone_ids);
    END IF;
    RETURN coalesce(gone_ids, '{}');
END $$
