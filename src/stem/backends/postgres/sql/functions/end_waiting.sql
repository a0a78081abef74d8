-- Part of Broker.cancel, purge and claim: end these rows, which are locked and wait, as cancelled: record, event, unique keys.
-- Returns their ids.
CREATE OR REPLACE FUNCTION end_waiting(_ns text, _rows tid[], _kind text, _error text, _data text) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    _now float8 := now_seconds();
    _records records[];
    _ids text[];
    _keys text[];
BEGIN
    WITH gone AS (
        DELETE FROM messages m WHERE m.ctid = ANY (_rows) RETURNING m.*
    ), logged AS (
        INSERT INTO events (ns, at, enqueued_at, started_at, attempt, kind, task_id, name, queue, worker, data)
        SELECT ns, _now, enqueued_at, started_at, attempt, _kind, id, name, queue, worker, event_data(body, _data)
        FROM gone ORDER BY seq
    )
    SELECT array_agg(ROW(ns, id, seq, fence, enqueued_at, _now, started_at, _now, heartbeat_at, _now, attempt, priority,
                         'cancelled', queue, name, worker, NULL, _error, progress, meta)::records),
           array_agg(id), array_agg(unique_key) FILTER (WHERE unique_key IS NOT NULL)
    INTO _records, _ids, _keys FROM gone;
    PERFORM file_records(_records);
    IF _keys IS NOT NULL THEN
        PERFORM release_keys(_ns, _keys, _ids, _ids);
    END IF;
    RETURN coalesce(_ids, '{}');
END $$
