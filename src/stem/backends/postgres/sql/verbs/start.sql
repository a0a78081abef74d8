-- Broker.start: these attempts run now, event started; twice is a no-op. Answers with the positions of the held leases.
CREATE OR REPLACE FUNCTION start(_ns text, _worker text, _ids text, _fences text)
RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    _now float8 := now_seconds();
    positions integer[];
BEGIN
    WITH held AS MATERIALIZED (
        SELECT u.ord, m.id, m.started_at IS NULL AS is_new
        FROM unnest(cells(_ids), cells(_fences)) WITH ORDINALITY AS u (id, fence, ord)
        JOIN messages m ON m.ns = _ns AND m.id = u.id AND m.fence = u.fence::bigint AND m.place = 2
        ORDER BY m.id FOR UPDATE OF m
    ), begun AS (
        UPDATE messages m SET worker = _worker, started_at = _now, updated_at = _now
        FROM held WHERE m.ns = _ns AND m.id = held.id AND held.is_new
        RETURNING held.ord, m.*
    ), told AS (
        INSERT INTO events (ns, at, enqueued_at, started_at, attempt, kind, task_id, name, queue, worker)
        SELECT ns, started_at, enqueued_at, started_at, attempt, 'started', id, name, queue, worker FROM begun ORDER BY ord
    )
    SELECT array_agg(ord) INTO positions FROM held;
    RETURN positions;
END $$
