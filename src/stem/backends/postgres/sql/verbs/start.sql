-- Broker.start: these attempts run, event started, dated back; twice is a no-op. Answers with the places in the batch of
-- the leases that are held. Without _ago they begin now: a process from before it goes on calling so.
CREATE OR REPLACE FUNCTION start(_ns text, _worker text, _ids text, _fences text, _ago text DEFAULT '')
RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    _now float8 := now_seconds();
    ids text[] := cells(_ids);
    fences text[] := cells(_fences);
    rows tid[];
    mine text[];
    places integer[];
BEGIN
    SELECT h.rows, h.mine INTO rows, mine FROM held(_ns, ids, fences) h;
    SELECT array_agg(u.place) INTO places
    FROM messages m JOIN unnest(mine) AS h (id) ON h.id = m.id || '' JOIN unnest(ids, fences) WITH ORDINALITY AS u (id, fence, place)
         ON u.id = h.id AND u.fence::bigint = m.fence
    WHERE m.ctid = ANY (rows) AND m.ns || '' = _ns;

    WITH begun AS (
        UPDATE messages m SET worker = _worker, started_at = _now - coalesce(u.ago::float8, 0), updated_at = _now
        FROM unnest(mine) AS h (id) JOIN unnest(ids, fences, cells(_ago)) WITH ORDINALITY AS u (id, fence, ago, place) ON u.id = h.id
        WHERE m.ctid = ANY (rows) AND m.ns || '' = _ns AND m.id || '' = h.id AND u.fence::bigint = m.fence AND m.started_at IS NULL
        RETURNING m.*, u.place AS line
    )
    INSERT INTO events (ns, at, enqueued_at, started_at, attempt, kind, task_id, name, queue, worker)
    SELECT _ns, started_at, enqueued_at, started_at, attempt, 'started', id, name, queue, _worker
    FROM begun ORDER BY line;
    RETURN places;
END $$
