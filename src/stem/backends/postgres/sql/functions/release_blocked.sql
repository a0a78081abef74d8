-- Part of carry_on and block: let these rows, which are locked and blocked, be claimed: now, or after their delay. Logs the event
-- released if it is asked for. Returns their queues.
CREATE OR REPLACE FUNCTION release_blocked(_ns text, _rows tid[], _is_told boolean) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    _now float8 := now_seconds();
    _queues text[];
BEGIN
    WITH released AS (
        UPDATE messages m
        SET due_at = coalesce(_now + m.release_delay, m.due_at), updated_at = _now,
            place = CASE WHEN coalesce(_now + m.release_delay, m.due_at) <= _now THEN 0 ELSE 1 END,
            missing = NULL, wait_number = NULL, on_failure = NULL, release_delay = NULL
        WHERE m.ctid = ANY (_rows) RETURNING m.*
    ), logged AS (
        INSERT INTO events (ns, at, enqueued_at, attempt, kind, task_id, name, queue, data)
        SELECT _ns, _now, enqueued_at, attempt, 'released', id, name, queue, event_data(body)
        FROM released WHERE _is_told ORDER BY seq
    )
    SELECT array_agg(DISTINCT queue) INTO _queues FROM released;
    RETURN _queues;
END $$
