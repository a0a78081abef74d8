-- Results.save: keep records of tasks that another store runs, unless the record here is later (by fence, attempt, stage).
-- Records of tasks that live in this store are skipped.
CREATE OR REPLACE FUNCTION save_records(
    _ns text, _ids text, _fences text, _enqueued text, _updated text, _started text, _finished text, _heartbeats text,
    _attempts text, _priorities text, _states text, _queues text, _names text, _workers text, _payloads text,
    _errors text, _metas text
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO records AS r (ns, id, seq, fence, enqueued_at, updated_at, started_at, finished_at, heartbeat_at, kept_from,
                              attempt, priority, state, queue, name, worker, payload, error, meta)
    SELECT _ns, u.id, nextval('task_seq'), u.fence::bigint, u.enqueued::float8, u.updated::float8, u.started::float8,
           u.finished::float8, u.heartbeat::float8,
           CASE WHEN u.state IN ('succeeded', 'failed', 'cancelled') THEN coalesce(u.finished::float8, 0) END,
           u.attempt::integer, u.priority::smallint, u.state, u.queue, u.name, u.worker::json #>> '{}', u.payload, u.error, u.meta
    FROM unnest(cells(_ids), cells(_fences), cells(_enqueued), cells(_updated), cells(_started), cells(_finished),
                cells(_heartbeats), cells(_attempts), cells(_priorities), cells(_states), cells(_queues), cells(_names),
                cells(_workers), cells(_payloads), cells(_errors), cells(_metas))
         WITH ORDINALITY AS u (id, fence, enqueued, updated, started, finished, heartbeat, attempt, priority, state,
                               queue, name, worker, payload, error, meta, ord)
    WHERE NOT EXISTS (SELECT FROM messages m WHERE m.ns = _ns AND m.id = u.id)
    ORDER BY u.ord
    ON CONFLICT (ns, id) DO UPDATE
    SET fence = excluded.fence, enqueued_at = excluded.enqueued_at, updated_at = excluded.updated_at,
        started_at = excluded.started_at, finished_at = excluded.finished_at, heartbeat_at = excluded.heartbeat_at,
        kept_from = CASE WHEN r.state = 'failed' AND r.kept_from IS NULL THEN NULL ELSE excluded.kept_from END,
        attempt = excluded.attempt, priority = excluded.priority, state = excluded.state, queue = excluded.queue,
        name = excluded.name, worker = excluded.worker, payload = excluded.payload, error = excluded.error,
        progress = NULL, meta = excluded.meta
    WHERE (excluded.fence, excluded.attempt,
           CASE WHEN excluded.state IN ('succeeded', 'failed', 'cancelled') THEN 2 WHEN excluded.state = 'running' THEN 1 ELSE 0 END)
       >= (r.fence, r.attempt,
           CASE WHEN r.state IN ('succeeded', 'failed', 'cancelled') THEN 2 WHEN r.state = 'running' THEN 1 ELSE 0 END);
END $$
