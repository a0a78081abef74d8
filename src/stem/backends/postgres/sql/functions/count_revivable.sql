-- Part of carry_on: count successes for tasks that were cancelled because another prerequisite failed. Those that miss nothing any
-- more are revived: released, or ended if they end by themselves. entries name them as dependents does, one per success.
CREATE OR REPLACE FUNCTION count_revivable(_ns text, _entries text[], OUT queues text[], OUT joined text[])
LANGUAGE plpgsql AS $$
DECLARE
    _now float8 := now_seconds();
    _run text[];
    _rows tid[] := ARRAY(
        SELECT v.row FROM (SELECT DISTINCT d.entry COLLATE "C" AS entry FROM unnest(_entries) AS d (entry) ORDER BY 1) e
        CROSS JOIN LATERAL (
            SELECT x.ctid AS row FROM revivable x
            WHERE x.ns = _ns AND x.id = split_part(e.entry, ' ', 1) AND x.wait_number = split_part(e.entry, ' ', 2)::bigint
            FOR UPDATE
        ) v
    );
BEGIN
    WITH lowered AS (
        UPDATE revivable v SET missing = v.missing - e.counts
        FROM (SELECT x.ctid AS row, x.id || ' ' || x.wait_number AS entry FROM revivable x WHERE x.ctid = ANY (_rows) OFFSET 0) f
        JOIN (SELECT d.entry, count(*)::integer AS counts FROM unnest(_entries) AS d (entry) GROUP BY d.entry) e
             ON e.entry = f.entry
        WHERE v.ctid = ANY (_rows) AND v.ctid = f.row RETURNING v.id, v.missing, v.ending
    )
    SELECT array_agg(id) FILTER (WHERE ending IS NOT NULL), array_agg(id) FILTER (WHERE ending IS NULL)
    INTO joined, _run FROM lowered WHERE missing <= 0;
    IF joined IS NULL AND _run IS NULL THEN
        RETURN;
    END IF;

    WITH found AS MATERIALIZED (
        DELETE FROM revivable v WHERE v.ns = _ns AND v.id = ANY (joined) RETURNING v.id, v.ending, v.body
    ), ended AS (
        UPDATE records r
        SET state = 'succeeded', error = NULL, payload = f.ending, finished_at = _now, kept_from = _now, updated_at = _now
        FROM found f WHERE r.ns = _ns AND r.id = ANY (joined) AND r.id = f.id RETURNING r.*, f.body
    )
    INSERT INTO events (ns, at, enqueued_at, started_at, attempt, kind, task_id, name, queue, worker, data)
    SELECT _ns, _now, enqueued_at, started_at, attempt, 'joined', id, name, queue, worker, event_data(body)
    FROM ended ORDER BY seq;

    WITH found AS MATERIALIZED (
        DELETE FROM revivable v WHERE v.ns = _ns AND v.id = ANY (_run) RETURNING v.*
    ), gone AS (
        DELETE FROM records r WHERE r.ns = _ns AND r.id = ANY (_run) RETURNING r.*
    ), taken AS MATERIALIZED (
        SELECT g.*, f.body, f.visibility_timeout, f.expires_at, f.deaths, coalesce(_now + f.release_delay, f.due_at) AS due_at
        FROM gone g JOIN found f ON f.id = g.id
    ), back AS (
        INSERT INTO messages (ns, id, seq, fence, due_at, enqueued_at, updated_at, heartbeat_at, expires_at, visibility_timeout,
                              attempt, deaths, priority, place, queue, name, progress, meta, body, dependents)
        SELECT ns, id, seq, fence, due_at, enqueued_at, _now, heartbeat_at, expires_at, visibility_timeout, attempt, deaths,
               priority, CASE WHEN due_at <= _now THEN 0 ELSE 1 END, queue, name, progress, meta, body, dependents
        FROM taken
    ), logged AS (
        INSERT INTO events (ns, at, enqueued_at, attempt, kind, task_id, name, queue, data)
        SELECT _ns, _now, enqueued_at, attempt, 'released', id, name, queue, event_data(body) FROM taken ORDER BY seq
    )
    SELECT array_agg(DISTINCT queue) INTO queues FROM taken;
END $$
