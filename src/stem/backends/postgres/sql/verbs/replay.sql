-- DeadLetters.replay: the letters at these numbers wait again, each once: attempt 0, no deaths, no error, no expiry.
-- Numbers are locked lowest first; who finds a letter gone leaves it out.
CREATE OR REPLACE FUNCTION replay(_ns text, _numbers bigint[], _delay float8)
RETURNS TABLE (id text, queue text) LANGUAGE plpgsql AS $$
DECLARE
    _now float8 := now_seconds();
BEGIN
    RETURN QUERY
    WITH letters AS (
        DELETE FROM dead d USING (
            SELECT x.id FROM dead x WHERE x.ns = _ns AND x.seq = ANY (_numbers) ORDER BY x.seq FOR UPDATE
        ) chosen
        WHERE d.ns = _ns AND d.id = chosen.id RETURNING d.*
    ), taken AS (
        DELETE FROM records r USING letters l WHERE r.ns = _ns AND r.id = l.id
        RETURNING r.*, l.body, l.visibility_timeout, l.seq AS number
    ), back AS (
        INSERT INTO messages (ns, id, seq, fence, due_at, enqueued_at, updated_at, visibility_timeout, priority, place,
                              queue, name, progress, meta, body)
        SELECT t.ns, t.id, t.seq, t.fence, _now + _delay, t.enqueued_at, _now, t.visibility_timeout, t.priority,
               CASE WHEN _delay <= 0 THEN 0 ELSE 1 END, t.queue, t.name, t.progress, t.meta, t.body
        FROM taken t
    ), told AS (
        INSERT INTO events (ns, at, enqueued_at, attempt, kind, task_id, name, queue)
        SELECT t.ns, _now, t.enqueued_at, 0, 'replayed', t.id, t.name, t.queue FROM taken t ORDER BY t.number DESC
    )
    SELECT t.id, t.queue FROM taken t ORDER BY t.number DESC;
END $$
