-- DeadLetters.replay: queue the letters at these numbers again, each once: attempt 0, no deaths, no error, no expiry.
-- Numbers are locked lowest first; a letter that is gone meanwhile is skipped.
CREATE OR REPLACE FUNCTION replay(_ns text, _numbers bigint[], _delay float8)
RETURNS TABLE (id text, queue text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _now float8 := now_seconds();
    _rows tid[] := ARRAY(
        SELECT d.ctid FROM dead d WHERE d.ns = _ns AND d.seq = ANY (_numbers) ORDER BY d.seq FOR UPDATE
    );
    _ids text[] := ARRAY(SELECT d.id FROM dead d WHERE d.ctid = ANY (_rows));
BEGIN
    RETURN QUERY
    WITH letters AS (
        DELETE FROM dead d WHERE d.ctid = ANY (_rows) RETURNING d.*
    ), records_gone AS (
        DELETE FROM records r WHERE r.ns = _ns AND r.id = ANY (_ids) RETURNING r.*
    ), taken AS MATERIALIZED (
        SELECT r.*, l.body, l.visibility_timeout, l.seq AS number FROM letters l JOIN records_gone r ON r.id = l.id
    ), back AS (
        INSERT INTO messages (ns, id, seq, fence, due_at, enqueued_at, updated_at, visibility_timeout, priority, place,
                              queue, name, progress, meta, body, dependents)
        SELECT ns, id, seq, fence, _now + _delay, enqueued_at, _now, visibility_timeout, priority,
               CASE WHEN _delay <= 0 THEN 0 ELSE 1 END, queue, name, progress,
               meta || E'\n' || json_build_object(
                   'replayCount', 1 + (
                       SELECT coalesce(max((line::json ->> 'replayCount')::bigint), 0)
                       FROM regexp_split_to_table(meta, E'\n') AS line
                       WHERE json_typeof(line::json -> 'replayCount') = 'number'
                   ),
                   'lastReplayAt', to_char(to_timestamp(_now) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
               ), body, dependents
        FROM taken
    ), told AS (
        INSERT INTO events (ns, at, enqueued_at, attempt, kind, task_id, name, queue, data)
        SELECT ns, _now, enqueued_at, 0, 'replayed', id, name, queue, event_data(body) FROM taken ORDER BY number DESC
    )
    SELECT id, queue FROM taken ORDER BY number DESC;
END $$
