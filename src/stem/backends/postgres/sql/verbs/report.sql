-- Broker.report: log each sign of life, keep the latest; an attempt not yet started starts.
-- Leases come once each, with their last progress; then the reports, each with its lease's position.
-- Answers with the positions of the held leases.
CREATE OR REPLACE FUNCTION report(_ns text, _worker text, _ids text, _fences text, _latest text, _owners text, _progress text)
RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    _now float8 := now_seconds();
    positions integer[];
BEGIN
    WITH held AS MATERIALIZED (
        SELECT u.ord, u.latest, m.id, m.started_at IS NULL AS is_new
        FROM unnest(cells(_ids), cells(_fences), cells(_latest)) WITH ORDINALITY AS u (id, fence, latest, ord)
        JOIN messages m ON m.ns = _ns AND m.id = u.id AND m.fence = u.fence::bigint AND m.place = 2
        ORDER BY m.id FOR UPDATE OF m
    ), noted AS (
        UPDATE messages m
        SET worker = CASE WHEN held.is_new THEN _worker ELSE m.worker END,
            started_at = coalesce(m.started_at, _now), updated_at = _now, heartbeat_at = _now,
            progress = coalesce(held.latest, m.progress)
        FROM held WHERE m.ns = _ns AND m.id = held.id
        RETURNING held.ord, held.is_new, m.*
    ), each AS (
        SELECT u.owner::integer AS owner, u.progress, u.ord
        FROM unnest(cells(_owners), cells(_progress)) WITH ORDINALITY AS u (owner, progress, ord)
    ), told AS (
        INSERT INTO events (ns, at, enqueued_at, started_at, attempt, kind, task_id, name, queue, worker, data)
        SELECT ns, updated_at, enqueued_at, started_at, attempt, kind, id, name, queue, worker, data
        FROM (
            SELECT n.*, e.ord AS place_in_batch, 1 AS step, e.progress AS data,
                   CASE WHEN e.progress IS NULL THEN 'heartbeat' ELSE 'progress' END AS kind
            FROM each e JOIN noted n ON n.ord = e.owner
            UNION ALL
            SELECT n.*, (SELECT min(e.ord) FROM each e WHERE e.owner = n.ord), 0, NULL, 'started'
            FROM noted n WHERE n.is_new
        ) lines
        ORDER BY place_in_batch, step
    )
    SELECT array_agg(ord) INTO positions FROM held;
    RETURN positions;
END $$
