-- Part of Broker.claim: end what is next in line and has expired: cancelled, error Expired, event expired.
CREATE OR REPLACE FUNCTION expire(_ns text, _queues text[], _limit integer, _now float8)
RETURNS TABLE (id text, unique_key text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH best AS MATERIALIZED (
        SELECT each.* FROM unnest(_queues) AS q (name) CROSS JOIN LATERAL (
            SELECT m.ctid AS row, m.id, m.priority, m.seq, m.expires_at FROM messages m
            WHERE m.ns = _ns AND m.queue = q.name AND m.place = 0
            ORDER BY m.priority DESC, m.seq LIMIT _limit
            FOR UPDATE SKIP LOCKED
        ) each
        ORDER BY each.priority DESC, each.seq LIMIT _limit
    ), gone AS (
        DELETE FROM messages m USING best
        WHERE m.ctid = ANY (ARRAY(SELECT row FROM best WHERE expires_at <= _now)) AND m.ns || '' = _ns AND m.id || '' = best.id
          AND best.expires_at <= _now
        RETURNING m.*
    ), filed AS (
        INSERT INTO records (ns, id, seq, fence, enqueued_at, updated_at, started_at, finished_at, heartbeat_at, kept_from,
                             attempt, priority, state, queue, name, worker, error, progress, meta)
        SELECT ns, id, seq, fence, enqueued_at, _now, started_at, _now, heartbeat_at, _now, attempt, priority,
               'cancelled', queue, name, worker,
               '{"type":"Expired","message":"It expired before it could start.","stack":"","retryable":false}',
               progress, meta
        FROM gone
        ON CONFLICT (id, ns) DO UPDATE  -- a record saved while the task was being pushed
        SET seq = excluded.seq, fence = excluded.fence, enqueued_at = excluded.enqueued_at,
            updated_at = excluded.updated_at, started_at = excluded.started_at, finished_at = excluded.finished_at,
            heartbeat_at = excluded.heartbeat_at, kept_from = excluded.kept_from, attempt = excluded.attempt,
            priority = excluded.priority, state = excluded.state, queue = excluded.queue, name = excluded.name,
            worker = excluded.worker, payload = excluded.payload, error = excluded.error, progress = excluded.progress,
            meta = excluded.meta
    ), told AS (
        INSERT INTO events (ns, at, enqueued_at, started_at, attempt, kind, task_id, name, queue, worker)
        SELECT ns, _now, enqueued_at, started_at, attempt, 'expired', id, name, queue, worker
        FROM gone ORDER BY priority DESC, seq
    )
    SELECT id, unique_key FROM gone;
END $$
