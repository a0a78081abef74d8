-- Part of Broker.claim: what has become due joins the ready, at most 5000 a call so that a flood cannot stall it.
CREATE OR REPLACE FUNCTION promote(_ns text, _queues text[], _now float8) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    WITH due AS (
        SELECT m.ctid FROM messages m
        WHERE m.ns = _ns AND m.queue = ANY (_queues) AND m.place = 1 AND m.due_at <= _now
        ORDER BY m.due_at LIMIT 5000
        FOR UPDATE SKIP LOCKED
    )
    UPDATE messages m SET place = 0 FROM due WHERE m.ctid = due.ctid;
END $$
