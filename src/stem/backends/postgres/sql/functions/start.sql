-- Broker.start: note that these attempts run: event started, dated back. Twice is a no-op. Returns the places in the batch of
-- the leases that are held. Without _ago the attempts begin now: processes of an earlier version call it like that.
CREATE OR REPLACE FUNCTION start(_ns text, _worker text, _ids text, _fences text, _ago text DEFAULT '')
RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    _now float8 := now_seconds();
    ids text[] := cells(_ids);
    fences text[] := cells(_fences);
    rows tid[] := held(_ns, ids, fences);
    places integer[];
BEGIN
    WITH mine AS MATERIALIZED (
        SELECT m.row, u.place, u.ago
        FROM (SELECT x.ctid AS row, x.id, x.fence FROM messages x WHERE x.ctid = ANY (rows) OFFSET 0) m
        JOIN unnest(ids, fences, cells(_ago)) WITH ORDINALITY AS u (id, fence, ago, place)
             ON u.id = m.id AND u.fence::bigint = m.fence
    ), begun AS (
        UPDATE messages m SET worker = _worker, started_at = _now - coalesce(u.ago::float8, 0), updated_at = _now
        FROM mine u WHERE m.ctid = ANY (rows) AND m.ctid = u.row AND m.started_at IS NULL
        RETURNING m.*, u.place AS line
    ), logged AS (
        INSERT INTO events (ns, at, enqueued_at, started_at, attempt, kind, task_id, name, queue, worker, data)
        SELECT _ns, started_at, enqueued_at, started_at, attempt, 'started', id, name, queue, _worker, event_data(body)
        FROM begun ORDER BY line
    )
    SELECT array_agg(place) INTO places FROM mine;
    RETURN places;
END $$
