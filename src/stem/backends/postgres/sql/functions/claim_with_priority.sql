-- Broker.claim: lease up to the limit of due tasks, highest priority first, then oldest, no task to two claimers. Returns one row
-- per delivery; rows without a fence name tasks that had expired and were ended on the way, and others that ended with them (or a
-- queue alone, with tasks that were released by that): at most about 5000 expired ones per call, because a transaction steps over
-- all rows that it has ended itself. A caller who gets that many and no delivery claims again. If there
-- was less than the limit, a row without an id comes last: its body tells in how many seconds the next delayed task is due, null
-- if none is delayed.
-- A task's fence only grows, even if a later claim leased the task and gave it back meanwhile. The fence is made of the clock,
-- not of a sequence: a claim that only leases is not flushed, so a crash of the server may undo it, and the next claimer must
-- not get the fence of a worker that still runs the task. The settlement that ends a lease flushes the claim as well.
CREATE OR REPLACE FUNCTION claim_with_priority(_ns text, _queues text[], _limit integer, _seconds float8)
RETURNS TABLE (id text, fence bigint, name text, queue text, attempt integer, deaths integer, body text, priority integer)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _now float8 := now_seconds();
    _fence bigint := _now * 1000000;
    _left integer := _limit;
    _look integer := _limit;
    _due_at float8;
    _gone integer := 0;
    _got integer;
    _expired record;
    _told record;
    _rows tid[];
    _flush text;
BEGIN
    SELECT min(next.due_at) INTO _due_at FROM unnest(_queues) AS q (name) CROSS JOIN LATERAL (
        SELECT m.due_at FROM messages m WHERE m.ns = _ns AND m.queue = q.name AND m.place = 1
        ORDER BY m.due_at LIMIT 1
    ) next;
    IF _due_at <= _now THEN
        PERFORM promote(_ns, _queues, _limit, _now);
    END IF;
    WHILE _left > 0 LOOP
        -- Chosen first and leased then: two plain plans are set up in half the time of one that does both.
        SELECT array_agg(next.row) INTO _rows FROM (
            SELECT each.row FROM unnest(_queues) AS q (name) CROSS JOIN LATERAL (
                SELECT x.ctid AS row, x.priority, x.seq FROM messages x
                WHERE x.ns = _ns AND x.queue = q.name AND x.place = 0
                ORDER BY x.priority DESC, x.seq LIMIT _left
                FOR UPDATE SKIP LOCKED
            ) each
            ORDER BY each.priority DESC, each.seq LIMIT _left
        ) next;
        EXIT WHEN _rows IS NULL;
        RETURN QUERY
        WITH leased AS (
            UPDATE messages m
            SET place = 2, fence = greatest(_fence, m.fence + 1),
                leased_until = _now + coalesce(nullif(m.visibility_timeout, 0), _seconds)
            WHERE m.ctid = ANY (_rows) AND (m.expires_at IS NULL OR m.expires_at > _now)
            RETURNING m.id, m.fence, m.name, m.queue, m.attempt, m.deaths, m.body, m.priority, m.seq
        )
        SELECT id, fence, name, queue, attempt, deaths, body, priority::integer FROM leased ORDER BY priority DESC, seq;
        GET DIAGNOSTICS _got = ROW_COUNT;
        _left := _left - _got;
        EXIT WHEN _got = cardinality(_rows);  -- else some have expired
        _expired := expire(_ns, _queues, _look, _now);
        EXIT WHEN _expired.ids = '{}';
        RETURN QUERY SELECT e, NULL::bigint, NULL, NULL, NULL::integer, NULL::integer, NULL, NULL::integer
        FROM unnest(_expired.ids) AS e;
        IF _expired.awaited IS NOT NULL THEN
            _told := carry_on(_ns, _expired.awaited);
            RETURN QUERY SELECT e, NULL::bigint, NULL, NULL, NULL::integer, NULL::integer, NULL, NULL::integer
            FROM unnest(_told.told_ended) AS e;
            RETURN QUERY SELECT '', NULL::bigint, NULL, q, NULL::integer, NULL::integer, NULL, NULL::integer
            FROM unnest(_told.told_queues) AS q;
        END IF;
        _gone := _gone + cardinality(_expired.ids);
        EXIT WHEN _gone >= 5000;
        _look := greatest(_left, 1000);  -- where one has expired there may be many
    END LOOP;
    IF _left > 0 THEN
        body := (_due_at - _now)::text;  -- an assignment costs less than a query, here and below
        RETURN NEXT;
    END IF;
    IF _gone = 0 THEN
        _flush := set_config('synchronous_commit', 'off', true);
    END IF;
END $$
