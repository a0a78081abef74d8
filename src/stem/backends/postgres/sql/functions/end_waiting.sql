-- Part of Broker.cancel, purge, push and claim: end these rows, which are locked, as cancelled and never to be revived: record,
-- event, unique keys. Returns their ids, and which of them others wait for; what that means is for carry_on.
CREATE OR REPLACE FUNCTION end_waiting(
    _ns text, _rows tid[], _kind text, _error text, _data text, OUT ids text[], OUT awaited text[]
) LANGUAGE plpgsql AS $$
DECLARE
    _now float8 := now_seconds();
    _records records[];
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
                         'cancelled', queue, name, worker, NULL, _error, progress, meta,
                         dependents, CASE WHEN ending IS NOT NULL THEN true END, NULL)::records),
           array_agg(id), array_agg(unique_key) FILTER (WHERE unique_key IS NOT NULL),
           array_agg(id) FILTER (WHERE dependents IS NOT NULL)
    INTO _records, ids, _keys, awaited FROM gone;
    PERFORM file_records(_records);
    IF _keys IS NOT NULL THEN
        PERFORM release_keys(_ns, _keys, ids, ids);
    END IF;
    ids := coalesce(ids, '{}');
END $$
