-- Part of Broker.claim: make due tasks ready, earliest first, and a bounded number, so that a flood cannot stall a claim.
-- If more than that many tasks of a queue are due at once, a later one may have to wait in spite of its priority.
-- This goes queue by queue, because only then the index gives the order and rows beyond the bound are not read.
CREATE OR REPLACE FUNCTION promote(_ns text, _queues text[], _limit integer, _now float8)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _most integer := greatest(_limit, 5000 / cardinality(_queues));
BEGIN
    UPDATE messages m SET place = 0 WHERE m.ctid = ANY (ARRAY(
        SELECT due.row FROM unnest(_queues) AS q (name) CROSS JOIN LATERAL (
            SELECT x.ctid AS row FROM messages x
            WHERE x.ns = _ns AND x.queue = q.name AND x.place = 1 AND x.due_at <= _now
            ORDER BY x.due_at, x.seq LIMIT _most FOR UPDATE SKIP LOCKED
        ) due
    ));
END $$
