-- Broker.claim: lease up to the limit of due tasks, highest priority first, then oldest, none to two claimers. A delivery a
-- row; rows without a fence name tasks that had expired and were ended on the way: some 5000 a call, because one transaction
-- steps over all that it has ended itself. Whoever gets as many and no delivery claims again.
-- A task's fence only grows, also if another claim came later, leased it and gave it back meanwhile. It is made of the clock,
-- not of a sequence: a claim that only leases is not flushed, so a crash of the server may undo it, and whoever claims after
-- that must not get the fence of one who still runs the task. The settlement that ends a lease flushes the claim along.
CREATE OR REPLACE FUNCTION claim(_ns text, _queues text[], _limit integer, _seconds float8)
RETURNS TABLE (id text, fence bigint, name text, queue text, attempt integer, deaths integer, body text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _now float8 := now_seconds();
    _fence bigint := _now * 1000000;
    _left integer := _limit;
    _look integer := _limit;
    _gone integer := 0;
    _got integer;
    _expired text[];
    _keys text[];
BEGIN
    IF EXISTS (SELECT FROM messages m
               WHERE m.ns = _ns AND m.queue = ANY (_queues) AND m.place = 1 AND m.due_at <= _now) THEN
        PERFORM promote(_ns, _queues, _limit, _now);
    END IF;
    WHILE _left > 0 LOOP
        RETURN QUERY
        WITH next AS MATERIALIZED (
            SELECT each.row, each.id FROM unnest(_queues) AS q (name) CROSS JOIN LATERAL (
                SELECT x.ctid AS row, x.id, x.priority, x.seq FROM messages x
                WHERE x.ns = _ns AND x.queue = q.name AND x.place = 0
                ORDER BY x.priority DESC, x.seq LIMIT _left
                FOR UPDATE SKIP LOCKED
            ) each
            ORDER BY each.priority DESC, each.seq LIMIT _left
        ), leased AS (
            UPDATE messages m
            SET place = 2, fence = greatest(_fence, m.fence + 1),
                leased_until = _now + coalesce(nullif(m.visibility_timeout, 0), _seconds)
            FROM next
            WHERE m.ctid = ANY (ARRAY(SELECT row FROM next)) AND m.ns = _ns AND m.id = next.id
              AND (m.expires_at IS NULL OR m.expires_at > _now)
            RETURNING m.*
        )
        SELECT id, fence, name, queue, attempt, deaths, body FROM leased ORDER BY priority DESC, seq;
        GET DIAGNOSTICS _got = ROW_COUNT;
        _left := _left - _got;
        -- What is still ready has expired, or is someone else's. Mostly there is nothing, and nothing costs less to see here.
        EXIT WHEN _left = 0 OR NOT EXISTS (SELECT FROM messages m
                                           WHERE m.ns = _ns AND m.queue = ANY (_queues) AND m.place = 0);
        SELECT array_agg(e.id), array_agg(e.unique_key) INTO _expired, _keys FROM expire(_ns, _queues, _look, _now) e;
        EXIT WHEN _expired IS NULL;
        PERFORM release_keys(_ns, _keys, _expired);
        RETURN QUERY SELECT e, NULL::bigint, NULL, NULL, NULL::integer, NULL::integer, NULL FROM unnest(_expired) AS e;
        _gone := _gone + cardinality(_expired);
        EXIT WHEN _gone >= 5000;
        _look := greatest(_left, 1000);  -- where one has expired there may be many
    END LOOP;
    IF _gone = 0 THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
END $$
