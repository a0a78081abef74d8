-- One step of Broker.purge: cancel what waits in the queue, oldest first, reason purged, event revoked.
CREATE OR REPLACE FUNCTION purge(_ns text, _queue text, _up_to bigint, _limit integer)
RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    _now float8 := now_seconds();
    ids text[];
BEGIN
    WITH waiting AS MATERIALIZED (
        SELECT m.id FROM messages m
        WHERE m.ns = _ns AND m.queue = _queue AND m.place IN (0, 1) AND m.seq <= _up_to
        ORDER BY m.seq LIMIT _limit FOR UPDATE
    ), gone AS (
        DELETE FROM messages m USING waiting WHERE m.ns = _ns AND m.id = waiting.id RETURNING m.*
    ), filed AS (
        INSERT INTO records (ns, id, seq, fence, enqueued_at, updated_at, started_at, finished_at, heartbeat_at, kept_from,
                             attempt, priority, state, queue, name, worker, error, progress, meta)
        SELECT ns, id, seq, fence, enqueued_at, _now, started_at, _now, heartbeat_at, _now, attempt, priority,
               'cancelled', queue, name, worker,
               '{"type":"Cancelled","message":"purged","stack":"","retryable":false}', progress, meta
        FROM gone
    ), freed AS (
        DELETE FROM uniques u USING gone WHERE u.ns = _ns AND u.key = gone.unique_key AND u.id = gone.id
    ), told AS (
        INSERT INTO events (ns, at, enqueued_at, started_at, attempt, kind, task_id, name, queue, worker, data)
        SELECT ns, _now, enqueued_at, started_at, attempt, 'revoked', id, name, queue, worker, '{"reason":"purged"}'
        FROM gone ORDER BY seq
    )
    SELECT array_agg(id) INTO ids FROM gone;
    RETURN coalesce(ids, '{}');
END $$
