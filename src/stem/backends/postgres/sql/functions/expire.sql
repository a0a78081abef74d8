-- Part of Broker.claim: end the next tasks that have expired: state cancelled, error Expired, event expired. Returns what
-- end_waiting does.
CREATE OR REPLACE FUNCTION expire(
    _ns text, _queues text[], _limit integer, _now float8, OUT ids text[], OUT awaited text[]
) LANGUAGE plpgsql AS $$
DECLARE
    _gone record;
BEGIN
    _gone := end_waiting(_ns, ARRAY(
        SELECT next.row FROM (
            SELECT each.* FROM unnest(_queues) AS q (name) CROSS JOIN LATERAL (
                SELECT m.ctid AS row, m.priority, m.seq, m.expires_at FROM messages m
                WHERE m.ns = _ns AND m.queue = q.name AND m.place = 0
                ORDER BY m.priority DESC, m.seq LIMIT _limit
                FOR UPDATE SKIP LOCKED
            ) each
            ORDER BY each.priority DESC, each.seq LIMIT _limit
        ) next
        WHERE next.expires_at <= _now
    ), 'expired', '{"type":"Expired","message":"It expired before it could start.","stack":"","retryable":false}', NULL);
    ids := _gone.ids;
    awaited := _gone.awaited;
END $$
