-- Part of Broker.claim: what has become due joins the ready, at most 5000 a call so that a flood cannot stall it.
CREATE OR REPLACE FUNCTION promote(_ns text, _queues text[], _now float8) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE messages m SET place = 0 WHERE m.ctid = ANY (ARRAY(
        SELECT x.ctid FROM messages x
        WHERE x.ns = _ns AND x.queue = ANY (_queues) AND x.place = 1 AND x.due_at <= _now
        ORDER BY x.due_at LIMIT 5000 FOR UPDATE SKIP LOCKED
    ));
END $$
