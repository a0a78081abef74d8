-- Steps.record: keep the result of a step if the lease is held; the first of a name stays. Event step, the first time only. Returns
-- whether the lease is held, and whether the step is new.
CREATE OR REPLACE FUNCTION record_step(
    _ns text, _id text, _fence bigint, _name text, _payload text, OUT is_held boolean, OUT is_new boolean
) LANGUAGE plpgsql AS $$
DECLARE
    _now float8 := now_seconds();
    _task messages;
BEGIN
    is_new := false;
    SELECT m.* INTO _task FROM messages m
    WHERE m.ns = _ns AND m.id = _id AND m.fence = _fence AND m.leased_until IS NOT NULL FOR UPDATE;
    is_held := FOUND;
    IF NOT is_held THEN
        RETURN;
    END IF;
    INSERT INTO steps (ns, id, name, at, payload) VALUES (_ns, _id, _name, _now, _payload) ON CONFLICT (id, ns, name) DO NOTHING;
    is_new := FOUND;
    IF is_new THEN
        INSERT INTO events (ns, at, enqueued_at, started_at, attempt, kind, task_id, name, queue, worker, data)
        VALUES (_ns, _now, _task.enqueued_at, _task.started_at, _task.attempt, 'step', _id, _task.name, _task.queue, _task.worker,
                event_data(_task.body, json_build_object('step', _name)::text));
    END IF;
END $$
