-- Broker.start: these attempts run now, event started; twice is a no-op. Answers with the places in the batch of the
-- leases that are held.
CREATE OR REPLACE FUNCTION start(_ns text, _worker text, _ids text, _fences text)
RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    _now float8 := now_seconds();
    ids text[] := cells(_ids);
    fences text[] := cells(_fences);
    rows tid[] := held(_ns, ids, fences);
    places integer[];
BEGIN
    SELECT array_agg(u.place) INTO places
    FROM messages m JOIN unnest(ids, fences) WITH ORDINALITY AS u (id, fence, place)
         ON u.id = m.id AND u.fence::bigint = m.fence
    WHERE m.ctid = ANY (rows);

    WITH begun AS (
        UPDATE messages m SET worker = _worker, started_at = _now, updated_at = _now
        WHERE m.ctid = ANY (rows) AND m.started_at IS NULL
        RETURNING m.*
    )
    INSERT INTO events (ns, at, enqueued_at, started_at, attempt, kind, task_id, name, queue, worker)
    SELECT _ns, _now, b.enqueued_at, _now, b.attempt, 'started', b.id, b.name, b.queue, _worker
    FROM begun b JOIN unnest(ids, fences) WITH ORDINALITY AS u (id, fence, place)
         ON u.id = b.id AND u.fence::bigint = b.fence
    ORDER BY u.place;
    RETURN places;
END $$
