-- Part of carry_on and block: end these rows, which are locked and blocked.
-- kinds: J joined, N not needed, C cancelled for a failed prerequisite, which may be revived. missing and errors are for C.
CREATE OR REPLACE FUNCTION end_blocked(_ns text, _rows tid[], _kinds text[], _missing integer[], _errors text[]) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    _now float8 := now_seconds();
    _records records[];
    _ids text[];
    _cancelled text[];
    _keys text[];
BEGIN
    WITH batch AS MATERIALIZED (
        SELECT m.*, u.kind, u.missing AS left_missing, u.place AS line,
               CASE u.kind WHEN 'C' THEN u.error WHEN 'N' THEN
                    '{"type":"Cancelled","message":"not-needed","stack":"","retryable":false}' END AS new_error
        FROM (SELECT x.ctid AS row, x.* FROM messages x WHERE x.ctid = ANY (_rows) OFFSET 0) m
        JOIN unnest(_rows, _kinds, _missing, _errors) WITH ORDINALITY AS u (row, kind, missing, error, place) ON u.row = m.row
    ), gone AS (
        DELETE FROM messages m WHERE m.ctid = ANY (_rows)
    ), kept AS (
        INSERT INTO revivable (ns, id, wait_number, due_at, release_delay, expires_at, visibility_timeout, missing, deaths,
                               ending, body)
        SELECT _ns, id, wait_number, due_at, release_delay, expires_at, visibility_timeout, left_missing, deaths, ending, body
        FROM batch WHERE kind = 'C'
    ), logged AS (
        INSERT INTO events (ns, at, enqueued_at, started_at, attempt, kind, task_id, name, queue, worker, data)
        SELECT _ns, _now, enqueued_at, started_at, attempt, CASE kind WHEN 'J' THEN 'joined' ELSE 'revoked' END, id, name, queue,
               worker, event_data(body, CASE kind WHEN 'N' THEN '{"reason":"not-needed"}' WHEN 'C' THEN json_build_object(
                   'reason', 'prerequisite-failed', 'cause', split_part(new_error::json ->> 'message', ' ', 1))::text END)
        FROM batch ORDER BY line
    )
    SELECT array_agg(ROW(_ns, id, seq, fence, enqueued_at, _now, started_at, _now, heartbeat_at, _now, attempt, priority,
                         CASE kind WHEN 'J' THEN 'succeeded' ELSE 'cancelled' END, queue, name, worker,
                         CASE kind WHEN 'J' THEN ending END, new_error, progress, meta,
                         dependents, CASE WHEN ending IS NOT NULL THEN true END, NULL)::records),
           array_agg(id ORDER BY line), array_agg(id) FILTER (WHERE kind <> 'J'),
           array_agg(unique_key) FILTER (WHERE unique_key IS NOT NULL)
    INTO _records, _ids, _cancelled, _keys FROM batch;
    PERFORM file_records(_records);
    IF _keys IS NOT NULL THEN
        PERFORM release_keys(_ns, _keys, _ids, coalesce(_cancelled, '{}'));
    END IF;
    RETURN _ids;
END $$
