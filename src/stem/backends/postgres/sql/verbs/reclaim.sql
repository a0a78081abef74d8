-- Broker.reclaim: take back tasks whose lease has run out, oldest first; one that has killed too often is a dead letter.
CREATE OR REPLACE FUNCTION reclaim(_ns text, _limit integer, _max_deaths integer)
RETURNS TABLE (id text, queue text, is_dead boolean) LANGUAGE plpgsql AS $$
DECLARE
    _now float8 := now_seconds();
BEGIN
    RETURN QUERY
    WITH late AS MATERIALIZED (
        SELECT m.*, m.deaths + (m.started_at IS NOT NULL)::integer AS count,
               format('Worker %s was lost while it ran the task.', coalesce(m.worker, 'None')) AS message
        FROM messages m
        WHERE m.ns = _ns AND m.place = 2 AND m.leased_until <= _now
        ORDER BY m.leased_until, m.seq LIMIT _limit
        FOR UPDATE SKIP LOCKED
    ), again AS (
        UPDATE messages m
        SET place = 0, due_at = _now, leased_until = NULL, worker = NULL, started_at = NULL, updated_at = _now,
            deaths = late.count
        FROM late WHERE m.ns = _ns AND m.id = late.id AND late.count < _max_deaths
    ), gone AS (
        DELETE FROM messages m USING late WHERE m.ns = _ns AND m.id = late.id AND late.count >= _max_deaths
    ), lost AS (
        SELECT l.*, json_build_object('type', 'WorkerLost', 'message', l.message, 'stack', '', 'retryable', true)::text
               AS obituary
        FROM late l WHERE l.count >= _max_deaths
    ), filed AS (
        INSERT INTO records (ns, id, seq, fence, enqueued_at, updated_at, started_at, finished_at, heartbeat_at, attempt,
                             priority, state, queue, name, worker, error, progress, meta)
        SELECT l.ns, l.id, l.seq, l.fence, l.enqueued_at, _now, l.started_at, _now, l.heartbeat_at, l.attempt, l.priority,
               'failed', l.queue, l.name, l.worker, l.obituary, l.progress, l.meta
        FROM lost l
    ), buried AS (
        INSERT INTO dead (ns, id, seq, dead_at, visibility_timeout, attempt, name, queue, reason, error, meta, body)
        SELECT l.ns, l.id, nextval('dead_seq_no'), _now, l.visibility_timeout, l.attempt, l.name, l.queue, 'crash-loop',
               l.obituary, json_build_object('deaths', l.count)::text, l.body
        FROM lost l ORDER BY l.leased_until, l.seq
    ), freed AS (
        DELETE FROM uniques u USING lost l WHERE u.ns = _ns AND u.key = l.unique_key AND u.id = l.id
    ), told AS (
        INSERT INTO events (ns, at, enqueued_at, started_at, attempt, kind, task_id, name, queue, worker, data)
        SELECT lines.ns, _now, lines.enqueued_at, lines.begun_at, lines.attempt, lines.kind, lines.id, lines.name,
               lines.queue, lines.runner, lines.data
        FROM (
            SELECT l.*, 0 AS step, NULL::float8 AS begun_at, NULL AS runner, 'requeued' AS kind,
                   '{"reason":"lease-expired"}' AS data
            FROM late l WHERE l.count < _max_deaths
            UNION ALL
            SELECT l.*, step, l.started_at, l.worker, CASE step WHEN 1 THEN 'failed' ELSE 'dead-lettered' END,
                   json_build_object('reason', 'crash-loop', 'error', json_build_object(
                       'type', 'WorkerLost', 'message', left(l.message, 500), 'retryable', true))::text
            FROM late l CROSS JOIN generate_series(1, 2) AS step WHERE l.count >= _max_deaths
        ) lines
        ORDER BY lines.leased_until, lines.seq, lines.step
    )
    SELECT l.id, l.queue, l.count >= _max_deaths FROM late l ORDER BY l.leased_until, l.seq;
END $$
