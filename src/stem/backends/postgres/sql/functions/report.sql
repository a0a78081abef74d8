-- Broker.report: log each heartbeat and progress, and keep the latest; an attempt that has not started starts.
-- Each lease is given once, with its last progress and how long it has run; then the reports, each with the place of its lease.
-- Returns the places of the leases that are held. Without _ago the attempts begin now, as in start.
CREATE OR REPLACE FUNCTION report(
    _ns text, _worker text, _ids text, _fences text, _latest text, _owners text, _progress text, _ago text DEFAULT ''
) RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    _now float8 := now_seconds();
    ids text[] := cells(_ids);
    fences text[] := cells(_fences);
    rows tid[] := held(_ns, ids, fences);
    places integer[];
BEGIN
    WITH before AS MATERIALIZED (
        SELECT m.row, u.place, u.latest, m.id, m.started_at IS NULL AS is_new, m.enqueued_at, m.attempt, m.name, m.queue, m.body,
               coalesce(m.started_at, _now - coalesce(u.ago::float8, 0)) AS started_at,
               CASE WHEN m.started_at IS NULL THEN _worker ELSE m.worker END AS worker
        FROM (SELECT x.ctid AS row, x.* FROM messages x WHERE x.ctid = ANY (rows) OFFSET 0) m
        JOIN unnest(ids, fences, cells(_latest), cells(_ago)) WITH ORDINALITY AS u (id, fence, latest, ago, place)
             ON u.id = m.id AND u.fence::bigint = m.fence
    ), noted AS (
        UPDATE messages m
        SET worker = b.worker, started_at = b.started_at, updated_at = _now, heartbeat_at = _now,
            progress = coalesce(b.latest, m.progress)
        FROM before b WHERE m.ctid = ANY (rows) AND m.ctid = b.row
    ), each AS MATERIALIZED (
        SELECT u.owner::integer AS owner, u.progress, u.line
        FROM unnest(cells(_owners), cells(_progress)) WITH ORDINALITY AS u (owner, progress, line)
    ), told AS (
        INSERT INTO events (ns, at, enqueued_at, started_at, attempt, kind, task_id, name, queue, worker, data)
        SELECT _ns, CASE step WHEN 0 THEN started_at ELSE _now END, enqueued_at, started_at, attempt, kind, id, name,
               queue, worker, data
        FROM (
            SELECT b.*, e.line, 1 AS step, e.progress AS data,
                   CASE WHEN e.progress IS NULL THEN 'heartbeat' ELSE 'progress' END AS kind
            FROM each e JOIN before b ON b.place = e.owner
            UNION ALL
            SELECT b.*, f.line, 0, event_data(b.body), 'started'
            FROM before b JOIN (SELECT owner, min(line) AS line FROM each GROUP BY owner) f ON f.owner = b.place
            WHERE b.is_new
        ) lines
        ORDER BY line, step
    )
    SELECT array_agg(place) INTO places FROM before;
    RETURN places;
END $$
