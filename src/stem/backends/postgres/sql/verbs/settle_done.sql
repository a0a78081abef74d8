-- Broker.settle for a batch of nothing but Done, the most common: succeeded, payload set, error cleared, message gone,
-- events started (where it was not) and succeeded. Answers with the positions of the held leases, or null for all.
CREATE OR REPLACE FUNCTION settle_done(
    _ns text, _worker text, _ids text, _fences text, _runs text, _payloads text, _metas text, _progress text, _ords text
) RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    _now float8 := now_seconds();
    ids text[] := cells(_ids);
    held integer[];
BEGIN
    WITH gone AS (
        DELETE FROM messages m
        USING unnest(ids, cells(_fences), cells(_runs), cells(_payloads), cells(_metas), cells(_progress), cells(_ords))
              AS u (id, fence, run, payload, meta, progress, ord)
        WHERE m.ns = _ns AND m.id = u.id AND m.fence = u.fence::bigint AND m.place = 2
        RETURNING u.ord::integer AS ord, u.payload, m.id, m.seq, m.fence, m.enqueued_at, m.heartbeat_at, m.attempt,
                  m.priority, m.queue, m.name, m.unique_key,
                  coalesce(m.started_at, _now - u.run::float8) AS started_at,
                  m.started_at IS NULL AND u.run IS NOT NULL AS is_new,
                  coalesce(u.progress, m.progress) AS progress,
                  CASE WHEN u.meta IS NULL THEN m.meta ELSE m.meta || E'\n' || u.meta END AS meta
    ), filed AS (
        INSERT INTO records (ns, id, seq, fence, enqueued_at, updated_at, started_at, finished_at, heartbeat_at, kept_from,
                             attempt, priority, state, queue, name, worker, payload, progress, meta)
        SELECT _ns, id, seq, fence, enqueued_at, _now, started_at, _now, heartbeat_at, _now, attempt, priority,
               'succeeded', queue, name, _worker, payload, progress, meta
        FROM gone
    ), freed AS (
        DELETE FROM uniques u USING gone WHERE u.ns = _ns AND u.key = gone.unique_key AND u.id = gone.id
    ), told AS (
        INSERT INTO events (ns, at, enqueued_at, started_at, attempt, kind, task_id, name, queue, worker)
        SELECT _ns, CASE step WHEN 0 THEN started_at ELSE _now END, enqueued_at, started_at, attempt,
               CASE step WHEN 0 THEN 'started' ELSE 'succeeded' END, id, name, queue, _worker
        FROM gone CROSS JOIN generate_series(0, 1) AS step
        WHERE step = 1 OR is_new
        ORDER BY ord, step
    )
    SELECT array_agg(ord) INTO held FROM gone;
    RETURN CASE WHEN cardinality(held) = cardinality(ids) THEN NULL ELSE coalesce(held, '{}') END;
END $$
