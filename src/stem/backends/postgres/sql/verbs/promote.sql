-- Part of Broker.claim: what has become due joins the ready, earliest first and bounded, so that a flood cannot stall it.
-- Of more than that many due at once in a queue, one of the later may not go first in spite of its priority.
-- Queue by queue, because only then the index gives the order and what is beyond the bound is not even looked at.
CREATE OR REPLACE FUNCTION promote(_ns text, _queues text[], _limit integer, _now float8)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _most integer := greatest(_limit, 5000 / cardinality(_queues));
BEGIN
    WITH due AS MATERIALIZED (
        SELECT each.* FROM unnest(_queues) AS q (name) CROSS JOIN LATERAL (
            SELECT x.ctid AS row, x.id FROM messages x
            WHERE x.ns = _ns AND x.queue = q.name AND x.place = 1 AND x.due_at <= _now
            ORDER BY x.due_at, x.seq LIMIT _most FOR UPDATE SKIP LOCKED
        ) each
    )
    UPDATE messages m SET place = 0 FROM due
    WHERE m.ctid = ANY (ARRAY(SELECT row FROM due)) AND m.ns || '' = _ns AND m.id || '' = due.id;
END $$
