-- Part of Broker.claim: lease the best that are ready, none to two claimers. What has expired is left for expire.
-- A task's fence only grows, also if another claim drew a higher one, leased it and gave it back meanwhile.
CREATE OR REPLACE FUNCTION lease(_ns text, _queues text[], _limit integer, _seconds float8, _fence bigint, _now float8)
RETURNS TABLE (id text, fence bigint, name text, queue text, attempt integer, deaths integer, body text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH best AS MATERIALIZED (
        SELECT each.* FROM unnest(_queues) AS q (name) CROSS JOIN LATERAL (
            SELECT m.ctid AS row, m.priority, m.seq, m.expires_at FROM messages m
            WHERE m.ns = _ns AND m.queue = q.name AND m.place = 0
            ORDER BY m.priority DESC, m.seq LIMIT _limit
            FOR UPDATE SKIP LOCKED
        ) each
        ORDER BY each.priority DESC, each.seq LIMIT _limit
    ), leased AS (
        UPDATE messages m
        SET place = 2, fence = greatest(_fence, m.fence + 1),
            leased_until = _now + coalesce(nullif(m.visibility_timeout, 0), _seconds)
        WHERE m.ctid = ANY (ARRAY(SELECT row FROM best WHERE expires_at IS NULL OR expires_at > _now))
        RETURNING m.*
    )
    SELECT id, fence, name, queue, attempt, deaths, body FROM leased ORDER BY priority DESC, seq;
END $$
