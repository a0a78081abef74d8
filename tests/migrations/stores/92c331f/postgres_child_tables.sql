--
-- PostgreSQL database dump
--


-- Dumped from database version 18.4
-- Dumped by pg_dump version 18.4

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: stem_old; Type: SCHEMA; Schema: -; Owner: -
--

CREATE SCHEMA stem_old;


--
-- Name: acquire(text, text, text, double precision); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.acquire(_ns text, _name text, _owner text, _seconds double precision) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    held locks%ROWTYPE;
    _now float8;
    _fence bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('stem.lock/' || _ns || '/' || _name, 0));
    -- Locked, because its owner may be renewing it: what counts is how that ends, and the time after it.
    SELECT * INTO held FROM locks l WHERE l.ns = _ns AND l.name = _name FOR UPDATE;
    _now := now_seconds();
    IF held.held_until > _now AND held.owner <> _owner THEN
        RETURN NULL;
    END IF;
    _fence := CASE WHEN held.held_until > _now THEN held.fence ELSE nextval('lock_fence') END;
    INSERT INTO locks (ns, name, owner, fence, held_until) VALUES (_ns, _name, _owner, _fence, _now + _seconds)
    ON CONFLICT (ns, name) DO UPDATE
    SET owner = excluded.owner, fence = excluded.fence, held_until = excluded.held_until;
    RETURN _fence;
END $$;


--
-- Name: cancel(text, text[], text); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.cancel(_ns text, _ids text[], _reason text) RETURNS text[]
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    rows tid[];
    ids text[];
BEGIN
    SELECT array_agg(m.row), array_agg(m.id) INTO rows, ids
    FROM (SELECT v.id FROM unnest(_ids) AS v (id) ORDER BY v.id COLLATE "C") u
    CROSS JOIN LATERAL (
        SELECT x.ctid AS row, x.id FROM messages x WHERE x.ns = _ns AND x.id = u.id AND x.place IN (0, 1) FOR UPDATE
    ) m;
    RETURN cancel_rows(_ns, rows, ids, _reason);
END $$;


--
-- Name: cancel_rows(text, tid[], text[], text); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.cancel_rows(_ns text, rows tid[], ids text[], _reason text) RETURNS text[]
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    _now float8 := now_seconds();
    gone_ids text[];
    keys text[];
BEGIN
    WITH gone AS (
        DELETE FROM messages m USING unnest(ids) AS h (id) WHERE m.ctid = ANY (rows) AND m.ns || '' = _ns AND m.id || '' = h.id
        RETURNING m.*
    ), filed AS (
        INSERT INTO records (ns, id, seq, fence, enqueued_at, updated_at, started_at, finished_at, heartbeat_at, kept_from,
                             attempt, priority, state, queue, name, worker, error, progress, meta)
        SELECT ns, id, seq, fence, enqueued_at, _now, started_at, _now, heartbeat_at, _now, attempt, priority,
               'cancelled', queue, name, worker,
               json_build_object('type', 'Cancelled', 'message', _reason, 'stack', '', 'retryable', false)::text, progress, meta
        FROM gone
        ON CONFLICT (id, ns) DO UPDATE  -- a record saved while the task was being pushed
        SET seq = excluded.seq, fence = excluded.fence, enqueued_at = excluded.enqueued_at,
            updated_at = excluded.updated_at, started_at = excluded.started_at, finished_at = excluded.finished_at,
            heartbeat_at = excluded.heartbeat_at, kept_from = excluded.kept_from, attempt = excluded.attempt,
            priority = excluded.priority, state = excluded.state, queue = excluded.queue, name = excluded.name,
            worker = excluded.worker, payload = excluded.payload, error = excluded.error, progress = excluded.progress,
            meta = excluded.meta
    ), told AS (
        INSERT INTO events (ns, at, enqueued_at, started_at, attempt, kind, task_id, name, queue, worker, data)
        SELECT ns, _now, enqueued_at, started_at, attempt, 'revoked', id, name, queue, worker, json_build_object('reason', _reason)::text
        FROM gone ORDER BY seq
    )
    SELECT array_agg(id), array_agg(unique_key) FILTER (WHERE unique_key IS NOT NULL) INTO gone_ids, keys FROM gone;
    IF keys IS NOT NULL THEN
        PERFORM release_keys(_ns, keys, gone_ids);
    END IF;
    RETURN coalesce(gone_ids, '{}');
END $$;


--
-- Name: cells(text); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.cells(joined text) RETURNS text[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT string_to_array(joined, E'\x01', '') $$;


--
-- Name: claim(text, text[], integer, double precision); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.claim(_ns text, _queues text[], _limit integer, _seconds double precision) RETURNS TABLE(id text, fence bigint, name text, queue text, attempt integer, deaths integer, body text)
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    _now float8 := now_seconds();
    _fence bigint := _now * 1000000;
    _left integer := _limit;
    _look integer := _limit;
    _due_at float8;
    _gone integer := 0;
    _got integer;
    _expired text[];
    _keys text[];
    _rows tid[];
    _ids text[];
    _are_here boolean;
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
        SELECT array_agg(next.row), array_agg(next.id), bool_and(next.is_here) INTO _rows, _ids, _are_here FROM (
            SELECT each.row, each.id, each.is_here FROM unnest(_queues) AS q (name) CROSS JOIN LATERAL (
                SELECT x.ctid AS row, x.id, x.priority, x.seq, x.tableoid = 'messages'::regclass AS is_here
                FROM messages x
                WHERE x.ns = _ns AND x.queue = q.name AND x.place = 0
                ORDER BY x.priority DESC, x.seq LIMIT _left
                FOR UPDATE SKIP LOCKED
            ) each
            ORDER BY each.priority DESC, each.seq LIMIT _left
        ) next;
        EXIT WHEN _rows IS NULL;
        IF _are_here THEN
            RETURN QUERY
            WITH leased AS (
                UPDATE ONLY messages m
                SET place = 2, fence = greatest(_fence, m.fence + 1),
                    leased_until = _now + coalesce(nullif(m.visibility_timeout, 0), _seconds)
                WHERE m.ctid = ANY (_rows) AND (m.expires_at IS NULL OR m.expires_at > _now)
                RETURNING m.*
            )
            SELECT id, fence, name, queue, attempt, deaths, body FROM leased ORDER BY priority DESC, seq;
        ELSE  -- in a table below, others may have the same address
            RETURN QUERY
            WITH leased AS (
                UPDATE messages m
                SET place = 2, fence = greatest(_fence, m.fence + 1),
                    leased_until = _now + coalesce(nullif(m.visibility_timeout, 0), _seconds)
                FROM unnest(_ids) AS next (id)
                WHERE m.ctid = ANY (_rows) AND m.ns || '' = _ns AND m.id || '' = next.id
                  AND (m.expires_at IS NULL OR m.expires_at > _now)
                RETURNING m.*
            )
            SELECT id, fence, name, queue, attempt, deaths, body FROM leased ORDER BY priority DESC, seq;
        END IF;
        GET DIAGNOSTICS _got = ROW_COUNT;
        _left := _left - _got;
        EXIT WHEN _got = cardinality(_rows);  -- else some have expired
        SELECT array_agg(e.id), array_agg(e.unique_key) INTO _expired, _keys FROM expire(_ns, _queues, _look, _now) e;
        EXIT WHEN _expired IS NULL;
        PERFORM release_keys(_ns, _keys, _expired);
        RETURN QUERY SELECT e, NULL::bigint, NULL, NULL, NULL::integer, NULL::integer, NULL FROM unnest(_expired) AS e;
        _gone := _gone + cardinality(_expired);
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
END $$;


--
-- Name: expire(text, text[], integer, double precision); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.expire(_ns text, _queues text[], _limit integer, _now double precision) RETURNS TABLE(id text, unique_key text)
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH best AS MATERIALIZED (
        SELECT each.* FROM unnest(_queues) AS q (name) CROSS JOIN LATERAL (
            SELECT m.ctid AS row, m.id, m.priority, m.seq, m.expires_at FROM messages m
            WHERE m.ns = _ns AND m.queue = q.name AND m.place = 0
            ORDER BY m.priority DESC, m.seq LIMIT _limit
            FOR UPDATE SKIP LOCKED
        ) each
        ORDER BY each.priority DESC, each.seq LIMIT _limit
    ), gone AS (
        DELETE FROM messages m USING best
        WHERE m.ctid = ANY (ARRAY(SELECT row FROM best WHERE expires_at <= _now)) AND m.ns || '' = _ns AND m.id || '' = best.id
          AND best.expires_at <= _now
        RETURNING m.*
    ), filed AS (
        INSERT INTO records (ns, id, seq, fence, enqueued_at, updated_at, started_at, finished_at, heartbeat_at, kept_from,
                             attempt, priority, state, queue, name, worker, error, progress, meta)
        SELECT ns, id, seq, fence, enqueued_at, _now, started_at, _now, heartbeat_at, _now, attempt, priority,
               'cancelled', queue, name, worker,
               '{"type":"Expired","message":"It expired before it could start.","stack":"","retryable":false}',
               progress, meta
        FROM gone
        ON CONFLICT (id, ns) DO UPDATE  -- a record saved while the task was being pushed
        SET seq = excluded.seq, fence = excluded.fence, enqueued_at = excluded.enqueued_at,
            updated_at = excluded.updated_at, started_at = excluded.started_at, finished_at = excluded.finished_at,
            heartbeat_at = excluded.heartbeat_at, kept_from = excluded.kept_from, attempt = excluded.attempt,
            priority = excluded.priority, state = excluded.state, queue = excluded.queue, name = excluded.name,
            worker = excluded.worker, payload = excluded.payload, error = excluded.error, progress = excluded.progress,
            meta = excluded.meta
    ), told AS (
        INSERT INTO events (ns, at, enqueued_at, started_at, attempt, kind, task_id, name, queue, worker)
        SELECT ns, _now, enqueued_at, started_at, attempt, 'expired', id, name, queue, worker
        FROM gone ORDER BY priority DESC, seq
    )
    SELECT id, unique_key FROM gone;
END $$;


--
-- Name: free_places(text, text, text); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.free_places(_ns text, _keys text, _holders text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    wanted record;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    FOR wanted IN
        SELECT u.key, array_agg(u.holder) AS holders FROM unnest(cells(_keys), cells(_holders)) AS u (key, holder)
        GROUP BY u.key ORDER BY u.key COLLATE "C"
    LOOP
        PERFORM FROM places p WHERE p.ns = _ns AND p.key = wanted.key FOR UPDATE;
        DELETE FROM holders h WHERE h.ns = _ns AND h.key = wanted.key AND h.holder = ANY (wanted.holders);
    END LOOP;
END $$;


--
-- Name: held(text, text[], text[]); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.held(_ns text, _ids text[], _fences text[], OUT rows tid[], OUT mine text[]) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
    SELECT array_agg(m.row), array_agg(DISTINCT m.id) INTO rows, mine
    FROM (SELECT v.id, v.fence FROM unnest(_ids, _fences) AS v (id, fence) ORDER BY v.id COLLATE "C") u
    CROSS JOIN LATERAL (
        SELECT x.ctid AS row, x.id FROM messages x
        WHERE x.ns = _ns AND x.id = u.id AND x.fence = u.fence::bigint AND x.leased_until IS NOT NULL
        FOR UPDATE
    ) m;
END $$;


--
-- Name: hold_places(text, text, text, text, text); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.hold_places(_ns text, _keys text, _holders text, _limits text, _ttls text) RETURNS boolean[]
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    who text[] := cells(_holders);
    limits bigint[] := cells(_limits)::bigint[];
    ttls float8[] := cells(_ttls)::float8[];
    answers boolean[] := array_fill(false, ARRAY[array_length(who, 1)]);
    wanted record;
    _now float8;
    _place integer;
    _live bigint;
    _ttl float8;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    FOR wanted IN
        SELECT u.key, array_agg(u.place::integer ORDER BY u.place) AS places
        FROM unnest(cells(_keys)) WITH ORDINALITY AS u (key, place)
        GROUP BY u.key ORDER BY u.key COLLATE "C"
    LOOP
        PERFORM lock_places(_ns, wanted.key);
        _now := now_seconds();
        _live := NULL;
        FOREACH _place IN ARRAY wanted.places LOOP
            UPDATE holders h SET expires_at = _now + ttls[_place]
            WHERE h.ns = _ns AND h.key = wanted.key AND h.holder = who[_place] AND h.expires_at > _now;
            answers[_place] := FOUND;
            CONTINUE WHEN FOUND;
            IF _live IS NULL THEN -- counted once, and only if somebody is new
                SELECT count(*) INTO _live FROM holders h WHERE h.ns = _ns AND h.key = wanted.key AND h.expires_at > _now;
            END IF;
            CONTINUE WHEN _live >= limits[_place];
            INSERT INTO holders (ns, key, holder, expires_at) VALUES (_ns, wanted.key, who[_place], _now + ttls[_place])
            ON CONFLICT (ns, key, holder) DO UPDATE SET expires_at = excluded.expires_at;
            answers[_place] := true;
            _live := _live + 1;
        END LOOP;
        -- It must stay as long as any holder, and moves in steps, so that most renewals leave it alone.
        _ttl := (SELECT max(ttls[place]) FROM unnest(wanted.places) AS place);
        UPDATE places p SET expires_at = _now + 2 * _ttl
        WHERE p.ns = _ns AND p.key = wanted.key AND p.expires_at < _now + _ttl;
    END LOOP;
    RETURN answers;
END $$;


--
-- Name: known(text, text[]); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.known(_ns text, _ids text[]) RETURNS text[]
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    _known text[] := (SELECT array_agg(r.id) FROM records r WHERE r.ns = _ns AND r.id = ANY (_ids));
BEGIN
    IF EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = 'messages'::regclass) THEN
        RETURN _known || (SELECT array_agg(m.id) FROM messages m
                          WHERE m.ns = _ns AND m.id = ANY (_ids) AND m.tableoid <> 'messages'::regclass);
    END IF;
    RETURN _known;
END $$;


--
-- Name: lock_places(text, text); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.lock_places(_ns text, _key text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
    LOOP
        PERFORM FROM places p WHERE p.ns = _ns AND p.key = _key FOR UPDATE;
        EXIT WHEN FOUND;
        -- Another may make it first, or prune it in between: then look again.
        INSERT INTO places (ns, key, expires_at) VALUES (_ns, _key, 0) ON CONFLICT (ns, key) DO NOTHING;
        EXIT WHEN FOUND;
    END LOOP;
END $$;


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: buckets; Type: TABLE; Schema: stem_old; Owner: -
--

CREATE TABLE stem_old.buckets (
    ns text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    tokens double precision NOT NULL,
    promised_seconds double precision NOT NULL,
    pace_seconds double precision NOT NULL,
    updated_at double precision NOT NULL,
    expires_at double precision NOT NULL
)
WITH (fillfactor='50');


--
-- Name: locked_bucket(text, text, double precision, double precision); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.locked_bucket(_ns text, _key text, _pace double precision, _burst double precision) RETURNS stem_old.buckets
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    bucket buckets%ROWTYPE;
BEGIN
    LOOP
        SELECT * INTO bucket FROM buckets b WHERE b.ns = _ns AND b.key = _key FOR UPDATE;
        EXIT WHEN FOUND;
        -- Another may make it first, or prune it in between: then look again.
        INSERT INTO buckets (ns, key, tokens, promised_seconds, pace_seconds, updated_at, expires_at)
        VALUES (_ns, _key, _burst, 0, _pace, now_seconds(), 0)
        ON CONFLICT (ns, key) DO NOTHING RETURNING * INTO bucket;
        EXIT WHEN FOUND;
    END LOOP;
    RETURN bucket;
END $$;


--
-- Name: now_seconds(); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.now_seconds() RETURNS double precision
    LANGUAGE sql PARALLEL SAFE
    AS $$SELECT extract(epoch FROM clock_timestamp())::float8$$;


--
-- Name: promote(text, text[], integer, double precision); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.promote(_ns text, _queues text[], _limit integer, _now double precision) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
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
END $$;


--
-- Name: prune_cutoff(text, bigint); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.prune_cutoff(_ns text, _count bigint) RETURNS TABLE(last_txid text, last_n bigint)
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    -- n grows by at least one an event, so its span, give or take the blocks drawn, bounds their number without counting. For
    -- those in tables below it was drawn before they were logged; none of them is smaller than 40 bytes.
    _most bigint := (SELECT last_value FROM event_n) - (SELECT n FROM events WHERE ns = _ns ORDER BY txid, n LIMIT 1) + 100000
        + (SELECT coalesce(sum(pg_relation_size(i.inhrelid)), 0) / 40 FROM pg_inherits i WHERE i.inhparent = 'events'::regclass);
BEGIN
    IF _most >= _count THEN
        RETURN QUERY SELECT e.txid::text, e.n FROM events e WHERE e.ns = _ns
                     ORDER BY e.txid DESC, e.n DESC OFFSET _count LIMIT 1;
    END IF;
END $$;


--
-- Name: prune_ended(text, integer); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.prune_ended(_ns text, _limit integer) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    _now float8 := now_seconds();
    _gone bigint := 0;
    _more bigint;
BEGIN
    DELETE FROM locks l WHERE l.ns = _ns AND l.held_until <= _now;
    GET DIAGNOSTICS _more = ROW_COUNT; _gone := _gone + _more;
    DELETE FROM heartbeats h WHERE h.ns = _ns AND h.kept_until <= _now;
    GET DIAGNOSTICS _more = ROW_COUNT; _gone := _gone + _more;
    DELETE FROM uniques u WHERE u.ctid = ANY (ARRAY(
        SELECT x.ctid FROM uniques x WHERE x.ns = _ns AND x.held_until <= _now LIMIT _limit FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS _more = ROW_COUNT; _gone := _gone + _more;
    DELETE FROM mail m WHERE m.ctid = ANY (ARRAY(
        SELECT x.ctid FROM mail x WHERE x.ns = _ns AND x.expires_at <= _now LIMIT _limit FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS _more = ROW_COUNT; _gone := _gone + _more;
    DELETE FROM revokes v WHERE v.ctid = ANY (ARRAY(
        SELECT x.ctid FROM revokes x WHERE x.ns = _ns AND x.expires_at <= _now LIMIT _limit FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS _more = ROW_COUNT; _gone := _gone + _more;
    DELETE FROM buckets b WHERE b.ctid = ANY (ARRAY(
        SELECT x.ctid FROM buckets x WHERE x.ns = _ns AND x.expires_at <= _now LIMIT _limit FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS _more = ROW_COUNT; _gone := _gone + _more;
    DELETE FROM places p WHERE p.ctid = ANY (ARRAY(
        SELECT x.ctid FROM places x WHERE x.ns = _ns AND x.expires_at <= _now LIMIT _limit FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS _more = ROW_COUNT; _gone := _gone + _more;
    DELETE FROM holders o WHERE o.ctid = ANY (ARRAY(
        SELECT x.ctid FROM holders x WHERE x.ns = _ns AND x.expires_at <= _now LIMIT _limit FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS _more = ROW_COUNT; _gone := _gone + _more;
    DELETE FROM lost l WHERE l.ns = _ns AND l.at <= _now - 3600;  -- core/watch.py: LOST_SECONDS
    GET DIAGNOSTICS _more = ROW_COUNT; _gone := _gone + _more;
    INSERT INTO upkeep (ns, pruned_at) VALUES (_ns, _now) ON CONFLICT (ns) DO UPDATE SET pruned_at = excluded.pruned_at;
    RETURN _gone;
END $$;


--
-- Name: prune_events(text, double precision, text, bigint, integer); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.prune_events(_ns text, _seconds double precision, _txid text, _n bigint, _limit integer) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    _horizon float8 := now_seconds() - _seconds;
    _gone bigint;
BEGIN
    WITH oldest AS MATERIALIZED (
        SELECT ctid AS row, txid, n, at FROM events WHERE ns = _ns ORDER BY txid, n LIMIT _limit
    ), kept AS MATERIALIZED (
        SELECT txid, n FROM oldest WHERE at > _horizon AND (txid, n) > (_txid::xid8, _n) ORDER BY txid, n LIMIT 1
    ), old AS MATERIALIZED (
        SELECT o.row, o.n FROM oldest o
        WHERE NOT EXISTS (SELECT FROM kept) OR (o.txid, o.n) < (SELECT k.txid, k.n FROM kept k)
    )
    -- A place is that of another row in each table below events, and n is not.
    DELETE FROM events e USING old WHERE e.ctid = ANY (ARRAY(SELECT row FROM old)) AND e.n = old.n;
    GET DIAGNOSTICS _gone = ROW_COUNT;
    RETURN _gone;
END $$;


--
-- Name: prune_records(text, double precision, integer); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.prune_records(_ns text, _seconds double precision, _limit integer) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    _horizon float8 := now_seconds() - _seconds;
    _gone bigint;
BEGIN
    DELETE FROM records r WHERE r.ctid = ANY (ARRAY(
        SELECT x.ctid FROM records x WHERE x.ns = _ns AND x.kept_from <= _horizon
        ORDER BY x.kept_from LIMIT _limit FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS _gone = ROW_COUNT;
    RETURN _gone;
END $$;


--
-- Name: publish(text, boolean, text, bytea, double precision); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.publish(_ns text, _is_channel boolean, _name text, _message bytea, _seconds double precision) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM pg_advisory_xact_lock(hashtextextended('stem.mail/' || _ns || '/' || _name, _is_channel::integer));
    INSERT INTO mail (ns, is_channel, name, number, expires_at, message)
    VALUES (_ns, _is_channel, _name, nextval('mail_number'), now_seconds() + _seconds, _message);
END $$;


--
-- Name: purge(text, text, bigint, integer); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.purge(_ns text, _queue text, _up_to bigint, _limit integer) RETURNS text[]
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    _now float8 := now_seconds();
    rows tid[];
    ids text[];
BEGIN
    SELECT array_agg(x.ctid), array_agg(x.id) INTO rows, ids FROM (
        SELECT m.ctid, m.id FROM messages m
        WHERE m.ns = _ns AND m.queue = _queue AND m.place = 0 AND m.seq <= _up_to
        ORDER BY m.priority DESC, m.seq LIMIT _limit FOR UPDATE
    ) x;
    IF rows IS NULL THEN
        SELECT array_agg(x.ctid), array_agg(x.id) INTO rows, ids FROM (
            SELECT m.ctid, m.id FROM messages m
            WHERE m.ns = _ns AND m.queue = _queue AND m.place = 1 AND m.seq <= _up_to
            ORDER BY m.due_at, m.seq LIMIT _limit FOR UPDATE
        ) x;
    END IF;
    RETURN cancel_rows(_ns, rows, ids, 'purged');
END $$;


--
-- Name: push(text, text, text, text, text, text, text, text, text, text, text, text); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.push(_ns text, _ids text, _names text, _queues text, _priorities text, _delays text, _not_before text, _expires_in text, _expires_at text, _visibility text, _metas text, _bodies text) RETURNS text[]
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    now float8 := now_seconds();
    ids text[] := cells(_ids);
    names text[] := cells(_names);
    queues text[] := cells(_queues);
    made text[];
    known text[];
BEGIN
    WITH stored AS (
        INSERT INTO messages (ns, id, seq, due_at, enqueued_at, updated_at, expires_at, visibility_timeout, priority,
                              place, queue, name, meta, body)
        SELECT _ns, g.id, g.seq, g.due_at, now, now,
               coalesce(now + g.expires_in, g.expires_at), g.visibility, g.priority,
               CASE WHEN g.due_at <= now THEN 0 ELSE 1 END, g.queue, g.name, g.meta, g.body
        FROM (
            SELECT nextval('task_seq') AS seq, u.id, u.name, u.queue, u.priority::smallint AS priority,
                   coalesce(now + u.delay::float8, u.not_before::float8, now) AS due_at,
                   u.expires_in::float8 AS expires_in, u.expires_at::float8 AS expires_at,
                   u.visibility::float8 AS visibility, coalesce(u.meta, '{}') AS meta, u.body
            FROM unnest(ids, names, queues, cells(_priorities), cells(_delays), cells(_not_before), cells(_expires_in),
                        cells(_expires_at), cells(_visibility), cells(_metas), cells(_bodies))
                 AS u (id, name, queue, priority, delay, not_before, expires_in, expires_at, visibility, meta, body)
            OFFSET 0
        ) g
        ORDER BY g.id COLLATE "C", g.seq
        ON CONFLICT (ns, id) DO NOTHING
        RETURNING id
    )
    SELECT array_agg(id) INTO made FROM stored;

    known := known(_ns, made);
    IF known IS NOT NULL THEN
        DELETE FROM ONLY messages WHERE ns = _ns AND id = ANY (known);
        SELECT array_agg(m.id) INTO made FROM unnest(made) AS m (id) WHERE m.id <> ALL (known);
    END IF;

    IF cardinality(made) = cardinality(ids) THEN
        INSERT INTO events (ns, at, enqueued_at, attempt, kind, task_id, name, queue)
        SELECT _ns, now, now, 0, 'enqueued', u.id, u.name, u.queue
        FROM unnest(ids, names, queues) WITH ORDINALITY AS u (id, name, queue, ord) ORDER BY u.ord;
        RETURN NULL;
    END IF;
    INSERT INTO events (ns, at, enqueued_at, attempt, kind, task_id, name, queue)
    SELECT _ns, now, now, 0, 'enqueued', m.id, m.name, m.queue
    FROM messages m WHERE m.ns = _ns AND m.id = ANY (made) ORDER BY m.seq;
    PERFORM pg_logical_emit_message(true, 'stem', '');  -- whoever stored the others may not have flushed them yet
    RETURN coalesce(made, '{}');
END $$;


--
-- Name: push_one(text, text, text, text, integer, double precision, double precision, double precision, double precision, double precision, text, text, text, text, text); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.push_one(_ns text, _id text, _name text, _queue text, _priority integer, _delay double precision, _not_before double precision, _expires_in double precision, _expires_at double precision, _visibility double precision, _meta text, _body text, _work text, _news text, _log text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    _now float8 := now_seconds();
    _due_at float8 := coalesce(_now + _delay, _not_before, _now);
    _fence bigint := _now * 1000000;
    _seat bigint;
    _lease float8;
    _handed text;
BEGIN
    IF _work IS NOT NULL AND _due_at <= _now AND _expires_in IS NULL AND _expires_at IS NULL THEN
        SELECT s.number, s.lease INTO _seat, _lease FROM seats s
        WHERE s.ns = _ns AND s.free > 0 AND s.until > _now AND _queue = ANY (s.queues)
        ORDER BY s.free DESC LIMIT 1 FOR UPDATE SKIP LOCKED;
        IF _seat IS NOT NULL THEN
            _handed := json_build_array(_id, _fence, _name, _queue)::text || E'\n' || _body;
            IF pg_try_advisory_xact_lock(_seat) THEN
                UPDATE seats s SET free = 0 WHERE s.ns = _ns AND s.number = _seat;  -- not what it was given: he may ask for it
                _seat := NULL;
            ELSIF octet_length(_handed) > 7900 OR EXISTS (  -- a notification takes less than 8000
                SELECT FROM messages m WHERE m.ns = _ns AND m.queue = _queue AND m.place = 0
            ) THEN
                _seat := NULL;
            END IF;
        END IF;
    END IF;
    INSERT INTO messages (ns, id, seq, fence, due_at, enqueued_at, updated_at, leased_until, expires_at, visibility_timeout,
                          priority, place, queue, name, meta, body)
    VALUES (_ns, _id, nextval('task_seq'), CASE WHEN _seat IS NULL THEN 0 ELSE _fence END, _due_at, _now, _now,
            CASE WHEN _seat IS NOT NULL THEN _now + coalesce(nullif(_visibility, 0), _lease) END,
            coalesce(_now + _expires_in, _expires_at), _visibility, _priority,
            CASE WHEN _seat IS NOT NULL THEN 2 WHEN _due_at <= _now THEN 0 ELSE 1 END,
            _queue, _name, coalesce(_meta, '{}'), _body)
    ON CONFLICT (ns, id) DO NOTHING;
    IF NOT FOUND THEN
        PERFORM pg_logical_emit_message(true, 'stem', '');  -- whoever stored it may not have flushed it yet
        RETURN false;
    END IF;
    -- After the insert, in a later snapshot: a task may have ended between the two. Of the tables below messages no index of
    -- its own knows.
    IF EXISTS (SELECT FROM records r WHERE r.ns = _ns AND r.id = _id)
       OR (EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = 'messages'::regclass)
           AND EXISTS (SELECT FROM messages m WHERE m.ns = _ns AND m.id = _id AND m.tableoid <> 'messages'::regclass)) THEN
        DELETE FROM ONLY messages m WHERE m.ns = _ns AND m.id = _id;
        RETURN false;
    END IF;
    INSERT INTO events (ns, at, enqueued_at, attempt, kind, task_id, name, queue)
    VALUES (_ns, _now, _now, 0, 'enqueued', _id, _name, _queue);
    IF _seat IS NOT NULL THEN
        UPDATE seats s SET free = s.free - 1, given = s.given || _id WHERE s.ns = _ns AND s.number = _seat;
        _work := _work || '_' || _seat;
        _news := _handed;
    END IF;
    IF _work IS NOT NULL THEN
        PERFORM set_config('synchronous_commit', 'off', true), pg_notify(_work, _news), pg_notify(_log, '{"logged":true}');
    END IF;
    RETURN true;
END $$;


--
-- Name: push_unique(text, text, text, text, text, text, text, text, text, text, text, text, text, text); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.push_unique(_ns text, _ids text, _names text, _queues text, _priorities text, _delays text, _not_before text, _expires_in text, _expires_at text, _visibility text, _metas text, _bodies text, _keys text, _seconds text) RETURNS TABLE(answer text, created boolean)
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    _now float8 := now_seconds();
    _one record;
    _until float8;
    _holder text;
    _key text;
    _is_known boolean := false;
BEGIN
    FOR _one IN
        SELECT * FROM unnest(cells(_ids), cells(_names), cells(_queues), cells(_priorities), cells(_delays),
                             cells(_not_before), cells(_expires_in), cells(_expires_at), cells(_visibility),
                             cells(_metas), cells(_bodies), cells(_keys), cells(_seconds))
                      AS u (id, name, queue, priority, delay, not_before, expires_in, expires_at, visibility, meta, body,
                            key, seconds)
    LOOP
        answer := _one.id;
        created := false;
        _key := _one.key::json #>> '{}';
        _until := _now + _one.seconds::float8;
        IF EXISTS (SELECT FROM messages m WHERE m.ns = _ns AND m.id = _one.id)
           OR EXISTS (SELECT FROM records r WHERE r.ns = _ns AND r.id = _one.id) THEN
            _is_known := true;
            RETURN NEXT;
            CONTINUE;
        END IF;
        _holder := NULL;
        WHILE _key IS NOT NULL LOOP
            -- Not DO UPDATE, which locks the row also where it changes nothing: the holder could not end while the
            -- caller's transaction is open.
            INSERT INTO uniques (ns, key, id, held_until) VALUES (_ns, _key, _one.id, _until)
            ON CONFLICT (ns, key) DO NOTHING;
            EXIT WHEN FOUND;
            UPDATE uniques u SET id = _one.id, held_until = _until
            WHERE u.ns = _ns AND u.key = _key AND u.held_until <= _now;
            EXIT WHEN FOUND;
            SELECT u.id INTO _holder FROM uniques u WHERE u.ns = _ns AND u.key = _key;
            CONTINUE WHEN NOT FOUND;  -- the holder ended between the two; try again
            EXIT WHEN NOT EXISTS (
                SELECT FROM records r WHERE r.ns = _ns AND r.id = _holder AND r.state = 'cancelled'
            );
            DELETE FROM uniques u WHERE u.ns = _ns AND u.key = _key AND u.id = _holder;  -- its work is not done
            _holder := NULL;
        END LOOP;
        IF _holder IS NULL THEN
            created := push(
                _ns, _one.id, _one.name, _one.queue, _one.priority, coalesce(_one.delay, ''),
                coalesce(_one.not_before, ''), coalesce(_one.expires_in, ''), coalesce(_one.expires_at, ''),
                coalesce(_one.visibility, ''), coalesce(_one.meta, ''), _one.body
            ) IS NULL;
            IF _key IS NOT NULL AND NOT created THEN  -- the same id came from elsewhere meanwhile
                DELETE FROM uniques u WHERE u.ns = _ns AND u.key = _key AND u.id = _one.id;
            ELSIF _key IS NOT NULL AND _until IS NULL THEN
                UPDATE messages m SET unique_key = _key WHERE m.ns = _ns AND m.id = _one.id;
            END IF;
        ELSE
            answer := _holder;
        END IF;
        _is_known := _is_known OR NOT created;
        RETURN NEXT;
    END LOOP;
    IF _is_known THEN
        PERFORM pg_logical_emit_message(true, 'stem', '');  -- whoever stored it may not have flushed it yet
    END IF;
END $$;


--
-- Name: reclaim(text, integer, integer, double precision); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.reclaim(_ns text, _limit integer, _max_deaths integer, _grace double precision DEFAULT 0) RETURNS TABLE(id text, queue text, is_dead boolean)
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    _now float8 := now_seconds();
    _rows tid[];
    _ids text[];
    _keys text[];
    _lost text[];
BEGIN
    IF _grace > 0 AND NOT watched(_ns, _now, _grace) THEN
        RETURN;
    END IF;
    SELECT array_agg(x.ctid), array_agg(x.id) INTO _rows, _ids FROM (
        SELECT m.ctid, m.id FROM messages m
        WHERE m.ns = _ns AND m.place = 2 AND m.leased_until <= _now
        ORDER BY m.leased_until, m.seq LIMIT _limit FOR UPDATE SKIP LOCKED
    ) x;
    IF _rows IS NULL THEN
        RETURN;
    END IF;
    SELECT array_agg(m.unique_key), array_agg(m.id) INTO _keys, _lost FROM messages m JOIN unnest(_ids) AS h (id) ON h.id = m.id || ''
    WHERE m.ctid = ANY (_rows) AND m.ns || '' = _ns AND m.unique_key IS NOT NULL
      AND m.deaths + (m.started_at IS NOT NULL)::integer >= _max_deaths;
    IF _keys IS NOT NULL THEN
        PERFORM release_keys(_ns, _keys, _lost);
    END IF;
    RETURN QUERY
    WITH late AS MATERIALIZED (
        SELECT m.*, m.deaths + (m.started_at IS NOT NULL)::integer AS count,
               format('Worker %s was lost while it ran the task.', coalesce(worker, 'None')) AS message
        FROM messages m JOIN unnest(_ids) AS h (id) ON h.id = m.id || '' WHERE m.ctid = ANY (_rows) AND m.ns || '' = _ns
    ), again AS (
        UPDATE messages m
        SET place = 0, due_at = _now, leased_until = NULL, worker = NULL, started_at = NULL, updated_at = _now,
            deaths = late.count
        FROM late WHERE m.ctid = ANY (_rows) AND m.ns || '' = _ns AND m.id || '' = late.id AND late.count < _max_deaths
    ), missed AS (
        INSERT INTO lost (ns, id, fence, at) SELECT ns, id, fence, _now FROM late
        WHERE started_at IS NOT NULL AND count < _max_deaths
        ON CONFLICT (ns, id, fence) DO NOTHING
    ), gone AS (
        DELETE FROM messages m USING late
        WHERE m.ctid = ANY (_rows) AND m.ns || '' = _ns AND m.id || '' = late.id AND late.count >= _max_deaths
    ), lost AS MATERIALIZED (
        SELECT late.*,
               json_build_object('type', 'WorkerLost', 'message', message, 'stack', '', 'retryable', true)::text AS obituary
        FROM late WHERE count >= _max_deaths
    ), filed AS (
        INSERT INTO records (ns, id, seq, fence, enqueued_at, updated_at, started_at, finished_at, heartbeat_at, attempt,
                             priority, state, queue, name, worker, error, progress, meta)
        SELECT ns, id, seq, fence, enqueued_at, _now, started_at, _now, heartbeat_at, attempt, priority, 'failed', queue,
               name, worker, obituary, progress, meta
        FROM lost
        ON CONFLICT (id, ns) DO UPDATE  -- a record saved while the task was being pushed
        SET seq = excluded.seq, fence = excluded.fence, enqueued_at = excluded.enqueued_at,
            updated_at = excluded.updated_at, started_at = excluded.started_at, finished_at = excluded.finished_at,
            heartbeat_at = excluded.heartbeat_at, kept_from = excluded.kept_from, attempt = excluded.attempt,
            priority = excluded.priority, state = excluded.state, queue = excluded.queue, name = excluded.name,
            worker = excluded.worker, payload = excluded.payload, error = excluded.error, progress = excluded.progress,
            meta = excluded.meta
    ), buried AS (
        INSERT INTO dead (ns, id, seq, dead_at, visibility_timeout, attempt, name, queue, reason, error, meta, body)
        SELECT ns, id, nextval('dead_seq_no'), _now, visibility_timeout, attempt, name, queue, 'crash-loop', obituary,
               json_build_object('deaths', count, 'runs', attempt + count)::text, body
        FROM lost ORDER BY leased_until, seq
    ), told AS (
        INSERT INTO events (ns, at, enqueued_at, started_at, attempt, kind, task_id, name, queue, worker, data)
        SELECT ns, _now, enqueued_at, started_at, attempt, kind, id, name, queue, worker, data
        FROM (
            SELECT late.*, 0 AS step, 'requeued' AS kind, '{"reason":"lease-expired"}' AS data
            FROM late WHERE count < _max_deaths
            UNION ALL
            SELECT late.*, step, CASE step WHEN 1 THEN 'failed' ELSE 'dead-lettered' END,
                   json_build_object('reason', 'crash-loop', 'error', json_build_object(
                       'type', 'WorkerLost', 'message', left(message, 500), 'retryable', true))::text
            FROM late CROSS JOIN generate_series(1, 2) AS step WHERE count >= _max_deaths
        ) lines
        ORDER BY leased_until, seq, step
    )
    SELECT id, queue, count >= _max_deaths FROM late ORDER BY leased_until, seq;
END $$;


--
-- Name: release_keys(text, text[], text[]); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.release_keys(_ns text, _keys text[], _ids text[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
    DELETE FROM uniques u WHERE u.ns = _ns AND u.key = ANY (_keys) AND u.id = ANY (_ids) AND u.held_until IS NULL;
END $$;


--
-- Name: renew(text, text, text, double precision); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.renew(_ns text, _ids text, _fences text, _seconds double precision) RETURNS integer[]
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    _now float8 := now_seconds();
    ids text[] := cells(_ids);
    fences text[] := cells(_fences);
    rows tid[];
    mine text[];
    places integer[];
BEGIN
    SELECT h.rows, h.mine INTO rows, mine FROM held(_ns, ids, fences) h;
    PERFORM set_config('synchronous_commit', 'off', true);
    WITH renewed AS (
        UPDATE messages m
        SET leased_until = greatest(m.leased_until, _now + greatest(_seconds, coalesce(m.visibility_timeout, 0)))
        FROM unnest(mine) AS h (id) WHERE m.ctid = ANY (rows) AND m.ns || '' = _ns AND m.id || '' = h.id RETURNING m.id, m.fence
    )
    SELECT array_agg(u.place) INTO places
    FROM renewed m JOIN unnest(ids, fences) WITH ORDINALITY AS u (id, fence, place)
         ON u.id = m.id AND u.fence::bigint = m.fence;
    RETURN places;
END $$;


--
-- Name: replay(text, bigint[], double precision); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.replay(_ns text, _numbers bigint[], _delay double precision) RETURNS TABLE(id text, queue text)
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    _now float8 := now_seconds();
    _rows tid[] := ARRAY(
        SELECT d.ctid FROM dead d WHERE d.ns = _ns AND d.seq = ANY (_numbers) ORDER BY d.seq FOR UPDATE
    );
    _ids text[] := ARRAY(SELECT d.id FROM dead d WHERE d.ctid = ANY (_rows));
BEGIN
    RETURN QUERY
    WITH letters AS (
        DELETE FROM dead d WHERE d.ctid = ANY (_rows) RETURNING d.*
    ), records_gone AS (
        DELETE FROM records r WHERE r.ns = _ns AND r.id = ANY (_ids) RETURNING r.*
    ), taken AS MATERIALIZED (
        SELECT r.*, l.body, l.visibility_timeout, l.seq AS number FROM letters l JOIN records_gone r ON r.id = l.id
    ), back AS (
        INSERT INTO messages (ns, id, seq, fence, due_at, enqueued_at, updated_at, visibility_timeout, priority, place,
                              queue, name, progress, meta, body)
        SELECT ns, id, seq, fence, _now + _delay, enqueued_at, _now, visibility_timeout, priority,
               CASE WHEN _delay <= 0 THEN 0 ELSE 1 END, queue, name, progress,
               meta || E'\n' || json_build_object(
                   'replayCount', 1 + (
                       SELECT coalesce(max((line::json ->> 'replayCount')::bigint), 0)
                       FROM regexp_split_to_table(meta, E'\n') AS line
                       WHERE json_typeof(line::json -> 'replayCount') = 'number'
                   ),
                   'lastReplayAt', to_char(to_timestamp(_now) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
               ), body
        FROM taken
    ), told AS (
        INSERT INTO events (ns, at, enqueued_at, attempt, kind, task_id, name, queue)
        SELECT ns, _now, enqueued_at, 0, 'replayed', id, name, queue FROM taken ORDER BY number DESC
    )
    SELECT id, queue FROM taken ORDER BY number DESC;
END $$;


--
-- Name: report(text, text, text, text, text, text, text, text); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.report(_ns text, _worker text, _ids text, _fences text, _latest text, _owners text, _progress text, _ago text DEFAULT ''::text) RETURNS integer[]
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    _now float8 := now_seconds();
    ids text[] := cells(_ids);
    fences text[] := cells(_fences);
    rows tid[];
    mine text[];
    places integer[];
BEGIN
    SELECT h.rows, h.mine INTO rows, mine FROM held(_ns, ids, fences) h;
    WITH before AS MATERIALIZED (
        SELECT u.place, u.latest, m.id, m.started_at IS NULL AS is_new, m.enqueued_at, m.attempt, m.name, m.queue,
               coalesce(m.started_at, _now - coalesce(u.ago::float8, 0)) AS started_at,
               CASE WHEN m.started_at IS NULL THEN _worker ELSE m.worker END AS worker
        FROM messages m JOIN unnest(mine) AS h (id) ON h.id = m.id || ''
        JOIN unnest(ids, fences, cells(_latest), cells(_ago)) WITH ORDINALITY AS u (id, fence, latest, ago, place)
             ON u.id = h.id AND u.fence::bigint = m.fence
        WHERE m.ctid = ANY (rows) AND m.ns || '' = _ns
    ), noted AS (
        UPDATE messages m
        SET worker = b.worker, started_at = b.started_at, updated_at = _now, heartbeat_at = _now,
            progress = coalesce(b.latest, m.progress)
        FROM before b WHERE m.ctid = ANY (rows) AND m.ns || '' = _ns AND m.id || '' = b.id
    ), each AS MATERIALIZED (
        SELECT u.owner::integer AS owner, u.progress, u.line
        FROM unnest(cells(_owners), cells(_progress)) WITH ORDINALITY AS u (owner, progress, line)
    ), told AS (
        INSERT INTO events (ns, at, enqueued_at, started_at, attempt, kind, task_id, name, queue, worker, data)
        SELECT _ns, CASE step WHEN 0 THEN started_at ELSE _now END, enqueued_at, started_at, attempt, kind, id, name,
               queue, worker, data
        FROM (
            SELECT b.*, e.line, 1 AS step, e.progress AS data,
                   CASE WHEN e.progress IS NULL THEN 'heartbeat' ELSE 'progress' END AS kind
            FROM each e JOIN before b ON b.place = e.owner
            UNION ALL
            SELECT b.*, f.line, 0, NULL, 'started'
            FROM before b JOIN (SELECT owner, min(line) AS line FROM each GROUP BY owner) f ON f.owner = b.place
            WHERE b.is_new
        ) lines
        ORDER BY line, step
    )
    SELECT array_agg(place) INTO places FROM before;
    RETURN places;
END $$;


--
-- Name: revoke_tasks(text, integer, text, text, text, text); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.revoke_tasks(_ns text, _count integer, _ids text, _offsets text, _expires_in text, _bodies text) RETURNS TABLE(at double precision, first_version bigint)
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    _now float8;
    _first bigint;
BEGIN
    INSERT INTO revoke_versions AS v (ns, version) VALUES (_ns, _count)
    ON CONFLICT (ns) DO UPDATE SET version = v.version + _count
    RETURNING version - _count + 1 INTO _first;
    _now := now_seconds();
    INSERT INTO revokes (ns, task_id, version, created_at, expires_at, body)
    SELECT _ns, u.id, _first + u.place::integer, _now, _now + u.expires_in::float8, u.body
    FROM unnest(cells(_ids), cells(_offsets), cells(_expires_in), cells(_bodies)) AS u (id, place, expires_in, body)
    ON CONFLICT (ns, task_id) DO UPDATE
    SET version = excluded.version, created_at = excluded.created_at, expires_at = excluded.expires_at,
        body = excluded.body;
    RETURN QUERY SELECT _now, _first;
END $$;


--
-- Name: rollup_prune(text, double precision, integer); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.rollup_prune(_ns text, _seconds double precision, _limit integer) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    _horizon bigint := ((now_seconds() - _seconds) * 1000000)::bigint;
    _gone bigint;
BEGIN
    DELETE FROM rollups r WHERE r.ctid = ANY (ARRAY(
        SELECT x.ctid FROM rollups x WHERE x.ns = _ns AND x.minute <= _horizon
        ORDER BY x.minute LIMIT _limit FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS _gone = ROW_COUNT;
    RETURN _gone;
END $$;


--
-- Name: save_records(text, text, text, text, text, text, text, text, text, text, text, text, text, text, text, text, text); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.save_records(_ns text, _ids text, _fences text, _enqueued text, _updated text, _started text, _finished text, _heartbeats text, _attempts text, _priorities text, _states text, _queues text, _names text, _workers text, _payloads text, _errors text, _metas text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
    INSERT INTO records AS r (ns, id, seq, fence, enqueued_at, updated_at, started_at, finished_at, heartbeat_at, kept_from,
                              attempt, priority, state, queue, name, worker, payload, error, meta)
    SELECT _ns, u.id, nextval('task_seq'), u.fence::bigint, u.enqueued::float8, u.updated::float8, u.started::float8,
           u.finished::float8, u.heartbeat::float8,
           CASE WHEN u.state IN ('succeeded', 'failed', 'cancelled') THEN coalesce(u.finished::float8, 0) END,
           u.attempt::integer, u.priority::smallint, u.state, u.queue, u.name, u.worker::json #>> '{}', u.payload, u.error, u.meta
    FROM unnest(cells(_ids), cells(_fences), cells(_enqueued), cells(_updated), cells(_started), cells(_finished),
                cells(_heartbeats), cells(_attempts), cells(_priorities), cells(_states), cells(_queues), cells(_names),
                cells(_workers), cells(_payloads), cells(_errors), cells(_metas))
         WITH ORDINALITY AS u (id, fence, enqueued, updated, started, finished, heartbeat, attempt, priority, state,
                               queue, name, worker, payload, error, meta, ord)
    WHERE NOT EXISTS (SELECT FROM messages m WHERE m.ns = _ns AND m.id = u.id)
    ORDER BY u.ord
    ON CONFLICT (ns, id) DO UPDATE
    SET fence = excluded.fence, enqueued_at = excluded.enqueued_at, updated_at = excluded.updated_at,
        started_at = excluded.started_at, finished_at = excluded.finished_at, heartbeat_at = excluded.heartbeat_at,
        kept_from = CASE WHEN r.state = 'failed' AND r.kept_from IS NULL THEN NULL ELSE excluded.kept_from END,
        attempt = excluded.attempt, priority = excluded.priority, state = excluded.state, queue = excluded.queue,
        name = excluded.name, worker = excluded.worker, payload = excluded.payload, error = excluded.error,
        progress = NULL, meta = excluded.meta
    WHERE (excluded.fence, excluded.attempt,
           CASE WHEN excluded.state IN ('succeeded', 'failed', 'cancelled') THEN 2 WHEN excluded.state = 'running' THEN 1 ELSE 0 END)
       >= (r.fence, r.attempt,
           CASE WHEN r.state IN ('succeeded', 'failed', 'cancelled') THEN 2 WHEN r.state = 'running' THEN 1 ELSE 0 END);
END $$;


--
-- Name: settle(text, text, text, text, text, text, text, text, text, text, text, text, text, text); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.settle(_ns text, _worker text, _ids text, _fences text, _runs text, _payloads text, _metas text, _progress text, _kinds text, _delays text, _errors text, _reasons text, _letters text, _data text) RETURNS integer[]
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $_$
DECLARE
    _now float8 := now_seconds();
    ids text[] := cells(_ids);
    fences text[] := cells(_fences);
    rows tid[];
    mine text[];
    settled integer[];
    keys text[];
    ended text[];
BEGIN
    SELECT h.rows, h.mine INTO rows, mine FROM held(_ns, ids, fences) h;
    WITH batch AS MATERIALIZED (
        SELECT u.place::integer AS place, u.kind, u.payload, u.error AS new_error, u.reason::json #>> '{}' AS reason,
               u.letter, u.data, _now + coalesce(u.delay::float8, 0) AS next_due_at,
               m.id, m.seq, m.fence, m.enqueued_at, m.heartbeat_at, m.attempt, m.priority, m.queue, m.name,
               m.unique_key, m.visibility_timeout, m.body,
               coalesce(m.started_at, _now - u.run::float8) AS started_at,
               m.started_at IS NULL AND u.run IS NOT NULL AS is_new,
               coalesce(u.progress, m.progress) AS progress,
               CASE WHEN u.meta IS NULL OR right(m.meta, length(u.meta)) = u.meta THEN m.meta
                    -- A task may be throttled a thousand times: the last note takes the place of the one before.
                    WHEN u.kind = 'T' AND u.meta LIKE '{"throttled":%' THEN
                        regexp_replace(m.meta, E'\n\\{"throttled":[^\n]*$', '') || E'\n' || u.meta
                    ELSE m.meta || E'\n' || u.meta END AS meta
        FROM messages m JOIN unnest(mine) AS h (id) ON h.id = m.id || ''
        JOIN unnest(ids, fences, cells(_runs), cells(_payloads), cells(_metas), cells(_progress), cells(_kinds),
                    cells(_delays), cells(_errors), cells(_reasons), cells(_letters), cells(_data))
             WITH ORDINALITY AS u (id, fence, run, payload, meta, progress, kind, delay, error, reason, letter, data, place)
             ON u.id = h.id AND u.fence::bigint = m.fence
        WHERE m.ctid = ANY (rows) AND m.ns || '' = _ns
    ), gone AS (
        DELETE FROM messages m USING batch b WHERE m.ctid = ANY (rows) AND m.ns || '' = _ns AND m.id || '' = b.id AND b.kind IN ('D', 'X', 'C')
    ), again AS (
        UPDATE messages m
        SET place = CASE WHEN b.next_due_at <= _now THEN 0 ELSE 1 END, due_at = b.next_due_at,
            leased_until = NULL, worker = NULL, started_at = NULL, updated_at = _now,
            attempt = m.attempt + CASE b.kind WHEN 'R' THEN 1 ELSE 0 END,
            deaths = m.deaths + CASE WHEN b.kind IN ('F', 'B') THEN 1 ELSE 0 END,
            error = CASE b.kind WHEN 'R' THEN b.new_error ELSE m.error END,
            progress = b.progress, meta = b.meta
        FROM batch b WHERE m.ctid = ANY (rows) AND m.ns || '' = _ns AND m.id || '' = b.id AND b.kind IN ('R', 'Q', 'T', 'F', 'B')
    ), filed AS (
        INSERT INTO records (ns, id, seq, fence, enqueued_at, updated_at, started_at, finished_at, heartbeat_at, kept_from,
                             attempt, priority, state, queue, name, worker, payload, error, progress, meta)
        SELECT _ns, id, seq, fence, enqueued_at, _now, started_at, _now, heartbeat_at,
               CASE kind WHEN 'X' THEN NULL ELSE _now END, attempt, priority,
               CASE kind WHEN 'D' THEN 'succeeded' WHEN 'X' THEN 'failed' ELSE 'cancelled' END,
               queue, name, _worker, payload, new_error, progress, meta
        FROM batch WHERE kind IN ('D', 'X', 'C')
        ON CONFLICT (id, ns) DO UPDATE  -- a record saved while the task was being pushed
        SET seq = excluded.seq, fence = excluded.fence, enqueued_at = excluded.enqueued_at,
            updated_at = excluded.updated_at, started_at = excluded.started_at, finished_at = excluded.finished_at,
            heartbeat_at = excluded.heartbeat_at, kept_from = excluded.kept_from, attempt = excluded.attempt,
            priority = excluded.priority, state = excluded.state, queue = excluded.queue, name = excluded.name,
            worker = excluded.worker, payload = excluded.payload, error = excluded.error, progress = excluded.progress,
            meta = excluded.meta
    ), buried AS (
        INSERT INTO dead (ns, id, seq, dead_at, visibility_timeout, attempt, name, queue, reason, error, meta, body)
        SELECT _ns, id, nextval('dead_seq_no'), _now, visibility_timeout, attempt, name, queue, reason, new_error,
               letter, body
        FROM batch WHERE kind = 'X' ORDER BY place
    ), told AS (
        INSERT INTO events (ns, at, enqueued_at, started_at, attempt, kind, task_id, name, queue, worker, data)
        SELECT _ns, CASE step WHEN 0 THEN started_at ELSE _now END, enqueued_at, started_at, attempt,
               CASE WHEN step = 0 THEN 'started' WHEN step = 2 THEN 'dead-lettered'
                    ELSE CASE kind WHEN 'D' THEN 'succeeded' WHEN 'R' THEN 'retried' WHEN 'X' THEN 'failed'
                                   WHEN 'T' THEN 'throttled' WHEN 'B' THEN 'throttled' WHEN 'C' THEN 'revoked' ELSE 'requeued' END END,
               id, name, queue, _worker, CASE step WHEN 0 THEN NULL ELSE data END
        FROM batch CROSS JOIN generate_series(0, 2) AS step
        WHERE step = 1 OR (step = 0 AND is_new) OR (step = 2 AND kind = 'X')
        ORDER BY place, step
    )
    SELECT array_agg(place), array_agg(id) FILTER (WHERE kind IN ('D', 'X', 'C')),
           array_agg(unique_key) FILTER (WHERE kind IN ('D', 'X', 'C') AND unique_key IS NOT NULL)
    INTO settled, ended, keys FROM batch;
    IF keys IS NOT NULL THEN
        PERFORM release_keys(_ns, keys, ended);
    END IF;
    RETURN CASE WHEN cardinality(settled) = cardinality(ids) THEN NULL ELSE coalesce(settled, '{}') END;
END $_$;


--
-- Name: settle_done(text, text, text, text, text, text, text, text); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.settle_done(_ns text, _worker text, _ids text, _fences text, _runs text, _payloads text, _metas text, _progress text) RETURNS integer[]
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    _now float8 := now_seconds();
    ids text[] := cells(_ids);
    fences text[] := cells(_fences);
    rows tid[];
    mine text[];
    settled integer[];
    keys text[];
BEGIN
    -- In the block: lock and delete are of one subtransaction.
    SELECT h.rows, h.mine INTO rows, mine FROM held(_ns, ids, fences) h;
    WITH gone AS (
        DELETE FROM messages m USING unnest(mine) AS h (id) WHERE m.ctid = ANY (rows) AND m.ns || '' = _ns AND m.id || '' = h.id
        RETURNING m.*
    ), ended AS MATERIALIZED (
        SELECT u.place::integer AS place, u.payload, g.id, g.seq, g.fence, g.enqueued_at, g.heartbeat_at, g.attempt,
               g.priority, g.queue, g.name, g.unique_key,
               coalesce(g.started_at, _now - u.run::float8) AS started_at,
               g.started_at IS NULL AND u.run IS NOT NULL AS is_new,
               coalesce(u.progress, g.progress) AS progress,
               CASE WHEN u.meta IS NULL THEN g.meta ELSE g.meta || E'\n' || u.meta END AS meta
        FROM gone g
        JOIN unnest(ids, fences, cells(_runs), cells(_payloads), cells(_metas), cells(_progress))
             WITH ORDINALITY AS u (id, fence, run, payload, meta, progress, place)
             ON u.id = g.id AND u.fence::bigint = g.fence
    ), filed AS (
        INSERT INTO records (ns, id, seq, fence, enqueued_at, updated_at, started_at, finished_at, heartbeat_at, kept_from,
                             attempt, priority, state, queue, name, worker, payload, progress, meta)
        SELECT _ns, id, seq, fence, enqueued_at, _now, started_at, _now, heartbeat_at, _now, attempt, priority,
               'succeeded', queue, name, _worker, payload, progress, meta
        FROM ended
    ), told AS (
        INSERT INTO events (ns, at, enqueued_at, started_at, attempt, kind, task_id, name, queue, worker)
        SELECT _ns, CASE step WHEN 0 THEN started_at ELSE _now END, enqueued_at, started_at, attempt,
               CASE step WHEN 0 THEN 'started' ELSE 'succeeded' END, id, name, queue, _worker
        FROM ended CROSS JOIN generate_series(0, 1) AS step
        WHERE step = 1 OR is_new
        ORDER BY place, step
    )
    SELECT array_agg(place), array_agg(unique_key) FILTER (WHERE unique_key IS NOT NULL) INTO settled, keys FROM ended;
    IF keys IS NOT NULL THEN
        PERFORM release_keys(_ns, keys, ids);
    END IF;
    RETURN CASE WHEN cardinality(settled) = cardinality(ids) THEN NULL ELSE coalesce(settled, '{}') END;
EXCEPTION WHEN unique_violation THEN
    -- A record was saved while its task was being pushed. The way that replaces it costs more, so it is not the first.
    RETURN settle(_ns, _worker, _ids, _fences, _runs, _payloads, _metas, _progress,
                  array_to_string(array_fill('D'::text, ARRAY[cardinality(ids)]), E'\x01'), '', '', '', '', '');
END $$;


--
-- Name: stage_attach(text, text, text[], bigint, double precision); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.stage_attach(_ns text, _job text, _parts text[], _rows bigint, _now double precision) RETURNS text[]
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $_$
DECLARE
    _xid text := pg_current_xact_id()::text;
    _patience text := current_setting('lock_timeout');
    _slot record;
    _found bigint := 0;
    _more bigint;
    _queues text[] := '{}';
    _other text[];
BEGIN
    IF (SELECT count(*) FROM pg_inherits i WHERE i.inhparent = 'messages'::regclass) > 6
       OR (SELECT count(*) FROM pg_inherits i WHERE i.inhparent = 'events'::regclass) > 62 THEN
        RETURN NULL;
    END IF;
    PERFORM set_config('lock_timeout', '5s', true), set_config('enable_seqscan', 'on', true);
    FOR _slot IN SELECT * FROM stage_slots(_ns, _job) LOOP
        EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', _slot.tasks);  -- whoever still stages is waited for
        EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', _slot.log);
        EXECUTE format('SELECT coalesce(sum(q.rows), 0), array_agg(q.queue) FROM ('
                       'SELECT s.queue, count(*) AS rows FROM %I s GROUP BY s.queue) q', _slot.tasks) INTO _more, _other;
        _found := _found + _more;
        _queues := _queues || _other;
    END LOOP;
    IF _found <> _rows OR stage_repeats(_ns, _job, _parts) OR stage_overlap(_ns, _job, _parts) THEN
        RAISE unique_violation;
    END IF;

    FOR _slot IN SELECT * FROM stage_slots(_ns, _job) LOOP
        PERFORM stage_seal(_ns, _slot.tasks);
        EXECUTE format(
            'ALTER TABLE %1$I ADD fence bigint NOT NULL DEFAULT 0, ADD enqueued_at float8 NOT NULL DEFAULT %2$L,'
            ' ADD updated_at float8 NOT NULL DEFAULT %2$L, ADD leased_until float8, ADD started_at float8,'
            ' ADD heartbeat_at float8, ADD expires_at float8, ADD attempt integer NOT NULL DEFAULT 0,'
            ' ADD deaths integer NOT NULL DEFAULT 0, ADD worker text, ADD unique_key text COLLATE "C", ADD error text,'
            ' ADD progress text, RESET (autovacuum_enabled), SET (autovacuum_vacuum_scale_factor = 0,'
            ' autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0,'
            ' autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 100000)', _slot.tasks, _now);
        EXECUTE format(
            'ALTER TABLE %1$I ADD ns text COLLATE "C" NOT NULL DEFAULT %2$L, ADD txid xid8 NOT NULL DEFAULT %3$L,'
            ' ADD at float8 NOT NULL DEFAULT %4$L, ADD enqueued_at float8 NOT NULL DEFAULT %4$L, ADD started_at float8,'
            ' ADD attempt integer NOT NULL DEFAULT 0, ADD kind text COLLATE "C" NOT NULL DEFAULT ''enqueued'','
            ' ADD worker text, ADD data text, RESET (autovacuum_enabled)', _slot.log, _ns, _xid, _now);
        EXECUTE format('ALTER TABLE %I ADD PRIMARY KEY (ns, txid, n)', _slot.log);
    END LOOP;

    LOCK TABLE messages, events IN SHARE UPDATE EXCLUSIVE MODE;  -- waits for a vacuum, and nobody waits behind it
    PERFORM set_config('lock_timeout', '500ms', true);
    LOCK TABLE messages IN SHARE ROW EXCLUSIVE MODE;
    IF stage_overlap(_ns, _job, _parts) THEN
        RAISE unique_violation;
    END IF;
    FOR _slot IN SELECT * FROM stage_slots(_ns, _job) LOOP
        EXECUTE format('ALTER TABLE %I INHERIT messages', _slot.tasks);
        EXECUTE format('ALTER TABLE %I INHERIT events', _slot.log);
        -- A try that was given up may yet stage more under the old names.
        EXECUTE format('ALTER TABLE %I RENAME TO %I', _slot.tasks, 'messages_' || _xid || '_' || _slot.slot);
        EXECUTE format('ALTER TABLE %I RENAME TO %I', _slot.log, 'events_' || _xid || '_' || _slot.slot);
    END LOOP;
    PERFORM set_config('lock_timeout', _patience, true);
    RETURN _queues;
EXCEPTION WHEN unique_violation OR lock_not_available OR deadlock_detected OR insufficient_privilege THEN
    PERFORM set_config('lock_timeout', _patience, true);
    RETURN NULL;
END $_$;


--
-- Name: stage_discard(text, text); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.stage_discard(_ns text, _job text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    _slot record;
BEGIN
    EXECUTE format('DROP TABLE IF EXISTS %I', stage_table(_ns, _job));
    FOR _slot IN SELECT * FROM stage_slots(_ns, _job) LOOP
        EXECUTE format('DROP TABLE %I, %I', _slot.tasks, _slot.log);
    END LOOP;
    DELETE FROM stage_parts p WHERE p.ns = _ns AND p.job = _job;
    DELETE FROM stage_jobs j WHERE j.ns = _ns AND j.job = _job AND j.promoted_at IS NULL;
END $$;


--
-- Name: stage_drop(); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.stage_drop() RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    _patience text := current_setting('lock_timeout');
    _table regclass;
    _is_used boolean;
    _gone bigint := 0;
BEGIN
    FOR _table IN
        SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent IN ('messages'::regclass, 'events'::regclass)
    LOOP
        BEGIN
            EXECUTE format('SELECT EXISTS (SELECT FROM %s)', _table) INTO _is_used;
            CONTINUE WHEN _is_used;
            PERFORM set_config('lock_timeout', '200ms', true);  -- claims wait as long as this does
            EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', _table);
            EXECUTE format('SELECT EXISTS (SELECT FROM %s)', _table) INTO _is_used;
            IF NOT _is_used THEN
                EXECUTE format('DROP TABLE %s', _table);
                _gone := _gone + 1;
            END IF;
        EXCEPTION WHEN lock_not_available OR undefined_table OR insufficient_privilege THEN
            NULL;
        END;
    END LOOP;
    PERFORM set_config('lock_timeout', _patience, true);
    RETURN _gone;
END $$;


--
-- Name: stage_fold(text, text, text[]); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.stage_fold(_ns text, _job text, _parts text[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $_$
DECLARE
    _table text := stage_open(_ns, _job);
    _slot record;
    _held text[] := '{}';
BEGIN
    FOR _slot IN SELECT * FROM stage_slots(_ns, _job) LOOP
        _held := _held || format('SELECT part, id, name, queue, priority, visibility_timeout, meta, body, seq FROM %I', _slot.tasks);
    END LOOP;
    EXECUTE format('ALTER TABLE %I RENAME TO %I', _table, _table || '_late');
    PERFORM stage_open(_ns, _job);
    EXECUTE format(
        'INSERT INTO %I (part, id, name, queue, priority, visibility_timeout, meta, body)'
        ' SELECT part, id, name, queue, priority, visibility_timeout, meta, body FROM (%s) s WHERE part = ANY ($1) ORDER BY seq',
        _table, array_to_string(_held, ' UNION ALL ')) USING _parts;
    EXECUTE format('INSERT INTO %I SELECT * FROM %I', _table, _table || '_late');
    EXECUTE format('DROP TABLE %I', _table || '_late');
    FOR _slot IN SELECT * FROM stage_slots(_ns, _job) LOOP
        EXECUTE format('DROP TABLE %I, %I', _slot.tasks, _slot.log);
    END LOOP;
END $_$;


--
-- Name: stage_note(text, text, text, bigint, bigint, text, text); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.stage_note(_ns text, _job text, _part text, _rows bigint, _slotted bigint, _low text, _high text) RETURNS void
    LANGUAGE sql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
    INSERT INTO stage_parts AS p (ns, job, part, rows, slotted, low, high)
    VALUES (_ns, _job, _part, _rows, _slotted, _low, _high)
    ON CONFLICT (ns, job, part) DO UPDATE
    SET rows = p.rows + excluded.rows, slotted = p.slotted + excluded.slotted, is_rising = p.is_rising AND p.high < excluded.low,
        low = least(p.low, excluded.low), high = greatest(p.high, excluded.high)
$$;


--
-- Name: stage_open(text, text); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.stage_open(_ns text, _job text) RETURNS text
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    _table text := stage_table(_ns, _job);
BEGIN
    PERFORM stage_touch(_ns, _job);
    IF to_regclass(_table) IS NULL THEN
        PERFORM pg_advisory_xact_lock(hashtextextended('stem.stage/' || _table, 0));
        EXECUTE format(
            'CREATE UNLOGGED TABLE IF NOT EXISTS %I (part text COLLATE "C" NOT NULL, id text COLLATE "C" NOT NULL,'
            ' name text COLLATE "C" NOT NULL, queue text COLLATE "C" NOT NULL, priority smallint NOT NULL,'
            ' delay_seconds float8, due_at float8, lifetime_seconds float8, expires_at float8,'
            ' visibility_timeout float8, meta text, body text NOT NULL)', _table);
    END IF;
    RETURN _table;
END $$;


--
-- Name: stage_overlap(text, text, text[]); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.stage_overlap(_ns text, _job text, _parts text[]) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    _part record;
BEGIN
    FOR _part IN SELECT p.low, p.high FROM stage_parts p WHERE p.ns = _ns AND p.job = _job AND p.part = ANY (_parts)
    LOOP
        IF EXISTS (SELECT FROM records r WHERE r.ns = _ns AND r.id >= _part.low AND r.id <= _part.high)
           OR EXISTS (SELECT FROM messages m WHERE m.ns = _ns AND m.id >= _part.low AND m.id <= _part.high) THEN
            RETURN true;
        END IF;
    END LOOP;
    RETURN false;
END $$;


--
-- Name: stage_promote(text, text, text[], bigint[], bigint); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.stage_promote(_ns text, _job text, _parts text[], _rows bigint[], _many bigint) RETURNS TABLE(made bigint, left_alone bigint, queues text[], broken text, there bigint)
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $_$
DECLARE
    _table text := stage_table(_ns, _job);
    _now float8 := now_seconds();
    _wanted bigint := (SELECT coalesce(sum(n), 0) FROM unnest(_rows) AS n);
    _slotted bigint;
    _more text[];
    _before stage_jobs;
    _is_plain boolean;
    _ids text[];
    _known text[];
    _insert text := 'INSERT INTO messages (ns, id, seq, due_at, enqueued_at, updated_at, expires_at, visibility_timeout,'
        ' priority, place, queue, name, meta, body)'
        ' SELECT $1, s.id, nextval(''task_seq''), coalesce($2 + s.delay_seconds, s.due_at, $2), $2, $2,'
        ' coalesce($2 + s.lifetime_seconds, s.expires_at), s.visibility_timeout, s.priority,'
        ' CASE WHEN coalesce($2 + s.delay_seconds, s.due_at, $2) <= $2 THEN 0 ELSE 1 END, s.queue, s.name,'
        ' coalesce(s.meta, ''{}''), s.body'
        ' FROM %I s WHERE s.part = ANY ($3)';
BEGIN
    -- Events are to follow the places in line, and a scan that joins another one halfway would not.
    PERFORM set_config('synchronize_seqscans', 'off', true);
    INSERT INTO stage_jobs (ns, job, staged_at) VALUES (_ns, _job, _now) ON CONFLICT (ns, job) DO NOTHING;
    SELECT * INTO _before FROM stage_jobs j WHERE j.ns = _ns AND j.job = _job FOR UPDATE;
    IF _before.promoted_at IS NOT NULL THEN
        RETURN QUERY SELECT _before.created, _before.known, '{}'::text[], NULL, NULL::bigint;
        RETURN;
    END IF;

    SELECT u.part, coalesce(p.rows, 0) INTO broken, there
    FROM unnest(_parts, _rows) AS u (part, rows)
    LEFT JOIN stage_parts p ON p.ns = _ns AND p.job = _job AND p.part = u.part
    WHERE u.rows <> coalesce(p.rows, 0) LIMIT 1;
    IF broken IS NOT NULL THEN
        RETURN NEXT;
        RETURN;
    END IF;

    SELECT coalesce(sum(p.slotted), 0) INTO _slotted FROM stage_parts p
    WHERE p.ns = _ns AND p.job = _job AND p.part = ANY (_parts);
    -- What is copied after the slots were attached keeps the others waiting, so it must be little.
    IF _slotted >= _many AND _wanted - _slotted <= _many THEN
        queues := stage_attach(_ns, _job, _parts, _slotted, _now);
    END IF;
    IF queues IS NULL THEN
        IF _slotted > 0 THEN
            PERFORM stage_fold(_ns, _job, _parts);
        END IF;
        _slotted := 0;
        queues := '{}';
    END IF;

    made := 0;
    _wanted := _wanted - _slotted;
    IF _wanted > 0 THEN
        _is_plain := _slotted > 0 OR NOT stage_overlap(_ns, _job, _parts);  -- the slots' own ids are known by now
        IF _is_plain THEN
            BEGIN
                EXECUTE format(_insert, _table) USING _ns, _now, _parts;
                GET DIAGNOSTICS made = ROW_COUNT;
                -- Looked up after the insert, in a later snapshot: a task of such an id may have ended just now, or come in a
                -- table below messages. With the job's own tables there nobody else could write.
                IF _slotted = 0 AND (EXISTS (
                    SELECT FROM stage_parts p JOIN records r ON r.id >= p.low AND r.id <= p.high AND r.ns = _ns
                    WHERE p.ns = _ns AND p.job = _job AND p.part = ANY (_parts)
                ) OR EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = 'messages'::regclass) AND EXISTS (
                    SELECT FROM stage_parts p JOIN messages m ON m.id >= p.low AND m.id <= p.high AND m.ns = _ns
                    WHERE p.ns = _ns AND p.job = _job AND p.part = ANY (_parts) AND m.tableoid <> 'messages'::regclass
                )) THEN
                    RAISE unique_violation;
                END IF;
            EXCEPTION WHEN unique_violation THEN
                _is_plain := false;
            END;
        END IF;
        IF _is_plain AND made <> _wanted THEN
            RAISE EXCEPTION 'the staged pushes of job % are not whole', _job USING ERRCODE = 'data_corrupted';
        END IF;
        IF _is_plain THEN
            EXECUTE format(
                'INSERT INTO events (ns, at, enqueued_at, attempt, kind, task_id, name, queue)'
                ' SELECT $1, $2, $2, 0, ''enqueued'', s.id, s.name, s.queue FROM %I s WHERE s.part = ANY ($3)', _table)
            USING _ns, _now, _parts;
        ELSE
            EXECUTE format('WITH stored AS (' || _insert || ' ON CONFLICT (ns, id) DO NOTHING RETURNING id)'
                           ' SELECT array_agg(id) FROM stored', _table)
            INTO _ids USING _ns, _now, _parts;
            _known := known(_ns, _ids);
            IF _known IS NOT NULL THEN
                DELETE FROM ONLY messages m WHERE m.ns = _ns AND m.id = ANY (_known);
                _ids := ARRAY(SELECT i FROM unnest(_ids) AS i EXCEPT SELECT k FROM unnest(_known) AS k);
            END IF;
            made := coalesce(cardinality(_ids), 0);
            INSERT INTO events (ns, at, enqueued_at, attempt, kind, task_id, name, queue)
            SELECT _ns, _now, _now, 0, 'enqueued', m.id, m.name, m.queue
            FROM messages m WHERE m.ns = _ns AND m.id = ANY (_ids) ORDER BY m.seq;
        END IF;
        EXECUTE format('SELECT array_agg(q.queue) FROM (SELECT s.queue FROM %I s GROUP BY s.queue) q', _table) INTO _more;
        queues := queues || _more;
    END IF;
    left_alone := _wanted - made;
    made := made + _slotted;
    UPDATE stage_jobs j SET promoted_at = _now, created = made, known = left_alone WHERE j.ns = _ns AND j.job = _job;
    RETURN NEXT;
END $_$;


--
-- Name: stage_prune(text, double precision, double precision); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.stage_prune(_ns text, _leftover_seconds double precision, _seconds double precision) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    _now float8 := now_seconds();
    _left text;
    _gone bigint := 0;
    _more bigint;
BEGIN
    FOR _left IN
        SELECT j.job FROM stage_jobs j
        WHERE j.ns = _ns AND j.staged_at <= _now - _leftover_seconds
          AND (j.promoted_at IS NULL OR to_regclass(stage_table(_ns, j.job)) IS NOT NULL
               OR EXISTS (SELECT FROM stage_slots(_ns, j.job)))
        LIMIT 10 FOR UPDATE SKIP LOCKED
    LOOP
        PERFORM stage_discard(_ns, _left);
        _gone := _gone + 1;
    END LOOP;
    DELETE FROM stage_jobs j WHERE j.ns = _ns AND j.promoted_at <= _now - _seconds;
    GET DIAGNOSTICS _more = ROW_COUNT;
    RETURN _gone + _more + stage_drop();
END $$;


--
-- Name: stage_repeats(text, text, text[]); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.stage_repeats(_ns text, _job text, _parts text[]) RETURNS boolean
    LANGUAGE sql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
    SELECT EXISTS (
        SELECT FROM (
            SELECT p.is_rising, p.low,
                   max(p.high) OVER (ORDER BY p.low ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
            FROM stage_parts p WHERE p.ns = _ns AND p.job = _job AND p.part = ANY (_parts)
        ) ranges
        WHERE NOT ranges.is_rising OR ranges.low <= ranges.before
    )
$$;


--
-- Name: stage_seal(text, text); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.stage_seal(_ns text, _tasks text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
    EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', _tasks);
    IF EXISTS (SELECT FROM pg_index i WHERE i.indrelid = _tasks::regclass) THEN
        RETURN;
    END IF;
    PERFORM set_config('maintenance_work_mem', '128MB', true);
    PERFORM set_config('max_parallel_maintenance_workers', '0', true);  -- one slot is indexed beside the other
    EXECUTE format('ALTER TABLE %I ADD ns text COLLATE "C" NOT NULL DEFAULT %L, ADD place smallint NOT NULL DEFAULT 0,'
                   ' ADD due_at float8 NOT NULL DEFAULT %L', _tasks, _ns, now_seconds());
    EXECUTE format('ALTER TABLE %I ADD PRIMARY KEY (id, ns)', _tasks);
    EXECUTE format('CREATE INDEX ON %I (ns, queue, priority DESC, seq) WHERE place = 0', _tasks);
    EXECUTE format('CREATE INDEX ON %I (ns, queue, due_at, seq) WHERE place = 1', _tasks);
    EXECUTE format('CREATE INDEX ON %I (ns, seq) WHERE place = 2', _tasks);
    EXECUTE format('CREATE INDEX ON %I (ns, seq) WHERE seq > 0', _tasks);
END $$;


--
-- Name: stage_slot(text, text, integer); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.stage_slot(_ns text, _job text, _first integer) RETURNS TABLE(slot integer, tasks text, log text)
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM stage_touch(_ns, _job);
    slot := _first;
    tasks := format('%s_%s', stage_table(_ns, _job), slot);
    IF NOT pg_try_advisory_xact_lock(hashtextextended('stem.stage/' || tasks, 0)) THEN
        slot := 1 - _first;
        tasks := format('%s_%s', stage_table(_ns, _job), slot);
        PERFORM pg_advisory_xact_lock(hashtextextended('stem.stage/' || tasks, 0));
    END IF;
    log := tasks || 'e';
    IF to_regclass(tasks) IS NULL THEN
        EXECUTE format(
            'CREATE TABLE %I (part text COLLATE "C" NOT NULL, id text COLLATE "C" NOT NULL,'
            ' seq bigint NOT NULL DEFAULT nextval(''task_seq''), priority smallint NOT NULL, visibility_timeout float8,'
            ' queue text COLLATE "C" NOT NULL, name text COLLATE "C" NOT NULL, meta text NOT NULL DEFAULT ''{}'','
            ' body text NOT NULL) WITH (fillfactor = 90, autovacuum_enabled = off)', tasks);
        EXECUTE format(
            'CREATE TABLE %I (n bigint NOT NULL DEFAULT nextval(''event_n''), task_id text COLLATE "C" NOT NULL,'
            ' name text COLLATE "C" NOT NULL, queue text COLLATE "C" NOT NULL)'
            ' WITH (autovacuum_enabled = off)', log);
    END IF;
    RETURN NEXT;
END $$;


--
-- Name: stage_slots(text, text); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.stage_slots(_ns text, _job text) RETURNS TABLE(slot integer, tasks text, log text)
    LANGUAGE sql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
    SELECT n, format('%s_%s', stage_table(_ns, _job), n), format('%s_%se', stage_table(_ns, _job), n)
    FROM generate_series(0, 1) AS n WHERE to_regclass(format('%s_%s', stage_table(_ns, _job), n)) IS NOT NULL
$$;


--
-- Name: stage_table(text, text); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.stage_table(_ns text, _job text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT 'staged_' || md5(_ns || '/' || _job) $$;


--
-- Name: stage_touch(text, text); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.stage_touch(_ns text, _job text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    _now float8 := now_seconds();
BEGIN
    INSERT INTO stage_jobs (ns, job, staged_at) VALUES (_ns, _job, _now) ON CONFLICT (ns, job) DO NOTHING;
    IF NOT FOUND THEN
        -- Seldom, so that stagers do not wait for one another: it only keeps the leftovers' broom away.
        UPDATE stage_jobs j SET staged_at = _now WHERE j.ns = _ns AND j.job = _job AND j.staged_at < _now - 3600;
    END IF;
END $$;


--
-- Name: stand(text, bigint, text[], integer, double precision, double precision, text[]); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.stand(_ns text, _number bigint, _queues text[], _room integer, _lease double precision, _seconds double precision, _heard text[]) RETURNS TABLE(id text, fence bigint, name text, queue text, attempt integer, deaths integer, body text)
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    _now float8 := now_seconds();
    _flush text := set_config('synchronous_commit', 'off', true);
    _given text[];
    _left text[] := '{}';
    _is_ready boolean;
    _due_at float8;
    _refusal integer := 0;
BEGIN
    IF pg_relation_size('seats') > 1000000 THEN  -- a long transaction keeps what is over; each push would look at all of it
        _refusal := 2;
        _room := 0;
    END IF;
    SELECT s.given INTO _given FROM seats s WHERE s.ns = _ns AND s.number = _number FOR UPDATE SKIP LOCKED;
    IF NOT FOUND AND EXISTS (SELECT FROM seats s WHERE s.ns = _ns AND s.number = _number) THEN
        _refusal := 1;  -- somebody pushes, and may have to wait for another with the same id
    ELSE
        IF _given <> '{}' THEN
            FOR id, fence, name, queue, attempt, deaths, body IN
                UPDATE messages m
                SET leased_until = greatest(m.leased_until, _now + coalesce(nullif(m.visibility_timeout, 0), _lease))
                WHERE m.ns = _ns AND m.id = ANY (_given) AND m.id <> ALL (_heard) AND m.place = 2
                  AND m.fence = (m.enqueued_at * 1000000)::bigint  -- one of another moment is another's
                RETURNING m.id, m.fence, m.name, m.queue, m.attempt, m.deaths, m.body
            LOOP
                _left := _left || id;
                RETURN NEXT;
            END LOOP;
        END IF;
        IF _room > 0 AND _given IS NULL THEN
            DELETE FROM seats s WHERE s.ns = _ns AND s.until < _now - 60;  -- of those who left without a word
            INSERT INTO seats (ns, number, until, lease, free, queues, given)
            VALUES (_ns, _number, _now + _seconds, _lease, _room, _queues, '{}')
            ON CONFLICT (ns, number) DO UPDATE SET until = _now, free = 0;  -- a call that nobody waits for any more was first
        ELSIF _room > 0 OR _left <> '{}' THEN
            UPDATE seats s
            SET until = _now + _seconds, lease = _lease, free = greatest(0, _room - cardinality(_left)), queues = _queues,
                given = _left
            WHERE s.ns = _ns AND s.number = _number;
        ELSE
            DELETE FROM seats s WHERE s.ns = _ns AND s.number = _number;
        END IF;
    END IF;
    SELECT bool_or(r.seq IS NOT NULL), min(d.due_at) INTO _is_ready, _due_at
    FROM unnest(_queues) AS q (name) LEFT JOIN LATERAL (
        SELECT m.seq FROM messages m WHERE m.ns = _ns AND m.queue = q.name AND m.place = 0
        ORDER BY m.priority DESC, m.seq LIMIT 1
    ) r ON true LEFT JOIN LATERAL (
        SELECT m.due_at FROM messages m WHERE m.ns = _ns AND m.queue = q.name AND m.place = 1 ORDER BY m.due_at LIMIT 1
    ) d ON true;
    id := NULL;
    fence := _now * 1000000;
    attempt := coalesce(_is_ready, false)::integer;
    deaths := _refusal;
    body := (_due_at - _now)::text;
    RETURN NEXT;
END $$;


--
-- Name: start(text, text, text, text, text); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.start(_ns text, _worker text, _ids text, _fences text, _ago text DEFAULT ''::text) RETURNS integer[]
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    _now float8 := now_seconds();
    ids text[] := cells(_ids);
    fences text[] := cells(_fences);
    rows tid[];
    mine text[];
    places integer[];
BEGIN
    SELECT h.rows, h.mine INTO rows, mine FROM held(_ns, ids, fences) h;
    SELECT array_agg(u.place) INTO places
    FROM messages m JOIN unnest(mine) AS h (id) ON h.id = m.id || '' JOIN unnest(ids, fences) WITH ORDINALITY AS u (id, fence, place)
         ON u.id = h.id AND u.fence::bigint = m.fence
    WHERE m.ctid = ANY (rows) AND m.ns || '' = _ns;

    WITH begun AS (
        UPDATE messages m SET worker = _worker, started_at = _now - coalesce(u.ago::float8, 0), updated_at = _now
        FROM unnest(mine) AS h (id) JOIN unnest(ids, fences, cells(_ago)) WITH ORDINALITY AS u (id, fence, ago, place) ON u.id = h.id
        WHERE m.ctid = ANY (rows) AND m.ns || '' = _ns AND m.id || '' = h.id AND u.fence::bigint = m.fence AND m.started_at IS NULL
        RETURNING m.*, u.place AS line
    )
    INSERT INTO events (ns, at, enqueued_at, started_at, attempt, kind, task_id, name, queue, worker)
    SELECT _ns, started_at, enqueued_at, started_at, attempt, 'started', id, name, queue, _worker
    FROM begun ORDER BY line;
    RETURN places;
END $$;


--
-- Name: survived(text, text, text); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.survived(_ns text, _ids text, _fences text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    _id text;
    _fence bigint;
BEGIN
    FOR _id, _fence IN
        SELECT u.id, u.fence::bigint FROM unnest(cells(_ids), cells(_fences)) AS u (id, fence) ORDER BY u.id COLLATE "C"
    LOOP
        DELETE FROM lost l WHERE l.ns = _ns AND l.id = _id AND l.fence = _fence;
        IF FOUND THEN
            UPDATE messages m SET deaths = greatest(0, m.deaths - 1) WHERE m.ns = _ns AND m.id = _id;
        END IF;
    END LOOP;
END $$;


--
-- Name: take_tokens(text, text, text, text); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.take_tokens(_ns text, _keys text, _paces text, _bursts text) RETURNS double precision[]
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    paces float8[] := cells(_paces)::float8[];
    bursts float8[] := cells(_bursts)::float8[];
    answers float8[] := array_fill(0::float8, ARRAY[array_length(paces, 1)]);
    wanted record;
    bucket buckets%ROWTYPE;
    _now float8;
    _place integer;
    _pace float8;
    _burst float8;
    _horizon float8;
    _passed float8;
    _tokens float8;
    _promised float8;
    _missing float8;
    _full_at float8;
    _is_changed boolean;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    FOR wanted IN
        SELECT u.key, array_agg(u.place::integer ORDER BY u.place) AS places
        FROM unnest(cells(_keys)) WITH ORDINALITY AS u (key, place)
        GROUP BY u.key ORDER BY u.key COLLATE "C"
    LOOP
        _place := wanted.places[1];
        bucket := locked_bucket(_ns, wanted.key, paces[_place], bursts[_place]);
        _now := now_seconds();
        _is_changed := bucket.updated_at > _now;
        bucket.updated_at := least(bucket.updated_at, _now); -- a clock was set back: go on from here
        FOREACH _place IN ARRAY wanted.places LOOP
            _pace := paces[_place];
            _burst := bursts[_place];
            _horizon := greatest(60, 2 * _pace);
            _passed := _now - bucket.updated_at;
            _promised := CASE WHEN bucket.pace_seconds = _pace THEN bucket.promised_seconds ELSE 0 END;
            _tokens := least(_burst + CASE WHEN _promised > 0 THEN 0.5 ELSE 0 END, bucket.tokens + _passed / _pace);
            _promised := greatest(0, _promised - _passed);
            _missing := (1 - _tokens) * _pace;
            IF _missing <= 1e-6 THEN
                _tokens := _tokens - 1;
            ELSE
                answers[_place] := greatest(_promised, _missing);
                IF answers[_place] > _horizon THEN
                    answers[_place] := _horizon * (1 + random()) / 2;
                    CONTINUE; -- the level stays as it was
                END IF;
                _promised := answers[_place] + _pace;
            END IF;
            _is_changed := true;
            bucket.tokens := _tokens;
            bucket.promised_seconds := _promised;
            bucket.pace_seconds := _pace;
            bucket.updated_at := _now;
            _full_at := _now + greatest(_promised, (_burst - _tokens) * _pace);
            IF bucket.expires_at < _full_at THEN
                bucket.expires_at := _full_at + 1;
            END IF;
        END LOOP;
        IF _is_changed THEN
            UPDATE buckets b
            SET tokens = bucket.tokens, promised_seconds = bucket.promised_seconds, pace_seconds = bucket.pace_seconds,
                updated_at = bucket.updated_at, expires_at = bucket.expires_at
            WHERE b.ns = _ns AND b.key = wanted.key;
        END IF;
    END LOOP;
    RETURN answers;
END $$;


--
-- Name: watched(text, double precision, double precision); Type: FUNCTION; Schema: stem_old; Owner: -
--

CREATE FUNCTION stem_old.watched(_ns text, _now double precision, _grace double precision) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'stem_old', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    _since float8;
BEGIN
    IF NOT EXISTS (SELECT FROM messages m WHERE m.ns = _ns AND m.place = 2) THEN
        RETURN false;
    END IF;
    INSERT INTO watch AS w (ns, seen_at, since) VALUES (_ns, _now, _now)
    ON CONFLICT (ns) DO UPDATE
    SET seen_at = _now,
        since = CASE WHEN _now - w.seen_at > _grace OR w.since > _now THEN _now ELSE w.since END
    RETURNING w.since INTO _since;
    RETURN _now - _since >= _grace;
END $$;


--
-- Name: dead; Type: TABLE; Schema: stem_old; Owner: -
--

CREATE TABLE stem_old.dead (
    ns text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    dead_at double precision NOT NULL,
    visibility_timeout double precision,
    attempt integer NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    reason text NOT NULL COLLATE pg_catalog."C",
    error text NOT NULL,
    meta text NOT NULL,
    body text NOT NULL
);


--
-- Name: dead_seq_no; Type: SEQUENCE; Schema: stem_old; Owner: -
--

CREATE SEQUENCE stem_old.dead_seq_no
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: event_n; Type: SEQUENCE; Schema: stem_old; Owner: -
--

CREATE SEQUENCE stem_old.event_n
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 100;


--
-- Name: events; Type: TABLE; Schema: stem_old; Owner: -
--

CREATE TABLE stem_old.events (
    ns text NOT NULL COLLATE pg_catalog."C",
    txid xid8 DEFAULT pg_current_xact_id() NOT NULL,
    n bigint DEFAULT nextval('stem_old.event_n'::regclass) NOT NULL,
    at double precision NOT NULL,
    enqueued_at double precision NOT NULL,
    started_at double precision,
    attempt integer NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    task_id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    worker text,
    data text
);


--
-- Name: events_759_0; Type: TABLE; Schema: stem_old; Owner: -
--

CREATE TABLE stem_old.events_759_0 (
    n bigint DEFAULT nextval('stem_old.event_n'::regclass) CONSTRAINT staged_48077e3d68270b0d20aee6b540cdb582_0e_n_not_null NOT NULL,
    task_id text CONSTRAINT staged_48077e3d68270b0d20aee6b540cdb582_0e_task_id_not_null NOT NULL COLLATE pg_catalog."C",
    name text CONSTRAINT staged_48077e3d68270b0d20aee6b540cdb582_0e_name_not_null NOT NULL COLLATE pg_catalog."C",
    queue text CONSTRAINT staged_48077e3d68270b0d20aee6b540cdb582_0e_queue_not_null NOT NULL COLLATE pg_catalog."C",
    ns text DEFAULT 'old'::text CONSTRAINT staged_48077e3d68270b0d20aee6b540cdb582_0e_ns_not_null NOT NULL COLLATE pg_catalog."C",
    txid xid8 DEFAULT '759'::xid8 CONSTRAINT staged_48077e3d68270b0d20aee6b540cdb582_0e_txid_not_null NOT NULL,
    at double precision DEFAULT '1794986330.946039'::double precision CONSTRAINT staged_48077e3d68270b0d20aee6b540cdb582_0e_at_not_null NOT NULL,
    enqueued_at double precision DEFAULT '1794986330.946039'::double precision CONSTRAINT staged_48077e3d68270b0d20aee6b540cdb582_0e_enqueued_at_not_null NOT NULL,
    started_at double precision,
    attempt integer DEFAULT 0 CONSTRAINT staged_48077e3d68270b0d20aee6b540cdb582_0e_attempt_not_null NOT NULL,
    kind text DEFAULT 'enqueued'::text CONSTRAINT staged_48077e3d68270b0d20aee6b540cdb582_0e_kind_not_null NOT NULL COLLATE pg_catalog."C",
    worker text,
    data text
)
INHERITS (stem_old.events);


--
-- Name: heartbeats; Type: TABLE; Schema: stem_old; Owner: -
--

CREATE TABLE stem_old.heartbeats (
    ns text NOT NULL COLLATE pg_catalog."C",
    worker_id text NOT NULL COLLATE pg_catalog."C",
    at double precision NOT NULL,
    kept_until double precision NOT NULL,
    body text NOT NULL
)
WITH (fillfactor='50');


--
-- Name: holders; Type: TABLE; Schema: stem_old; Owner: -
--

CREATE TABLE stem_old.holders (
    ns text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    holder text NOT NULL COLLATE pg_catalog."C",
    expires_at double precision NOT NULL
)
WITH (fillfactor='50');


--
-- Name: lock_fence; Type: SEQUENCE; Schema: stem_old; Owner: -
--

CREATE SEQUENCE stem_old.lock_fence
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: locks; Type: TABLE; Schema: stem_old; Owner: -
--

CREATE TABLE stem_old.locks (
    ns text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    owner text NOT NULL,
    fence bigint NOT NULL,
    held_until double precision NOT NULL
);


--
-- Name: lost; Type: TABLE; Schema: stem_old; Owner: -
--

CREATE TABLE stem_old.lost (
    ns text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    fence bigint NOT NULL,
    at double precision NOT NULL
);


--
-- Name: mail; Type: TABLE; Schema: stem_old; Owner: -
--

CREATE TABLE stem_old.mail (
    ns text NOT NULL COLLATE pg_catalog."C",
    is_channel boolean NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    number bigint NOT NULL,
    expires_at double precision NOT NULL,
    message bytea NOT NULL
);


--
-- Name: mail_number; Type: SEQUENCE; Schema: stem_old; Owner: -
--

CREATE SEQUENCE stem_old.mail_number
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: messages; Type: TABLE; Schema: stem_old; Owner: -
--

CREATE TABLE stem_old.messages (
    ns text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    fence bigint DEFAULT 0 NOT NULL,
    due_at double precision NOT NULL,
    enqueued_at double precision NOT NULL,
    updated_at double precision NOT NULL,
    leased_until double precision,
    started_at double precision,
    heartbeat_at double precision,
    expires_at double precision,
    visibility_timeout double precision,
    attempt integer DEFAULT 0 NOT NULL,
    deaths integer DEFAULT 0 NOT NULL,
    priority smallint NOT NULL,
    place smallint NOT NULL,
    queue text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    worker text,
    unique_key text COLLATE pg_catalog."C",
    error text,
    progress text,
    meta text NOT NULL,
    body text NOT NULL
)
WITH (fillfactor='90', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='100000');


--
-- Name: task_seq; Type: SEQUENCE; Schema: stem_old; Owner: -
--

CREATE SEQUENCE stem_old.task_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: messages_759_0; Type: TABLE; Schema: stem_old; Owner: -
--

CREATE TABLE stem_old.messages_759_0 (
    part text CONSTRAINT staged_48077e3d68270b0d20aee6b540cdb582_0_part_not_null NOT NULL COLLATE pg_catalog."C",
    id text CONSTRAINT staged_48077e3d68270b0d20aee6b540cdb582_0_id_not_null NOT NULL COLLATE pg_catalog."C",
    seq bigint DEFAULT nextval('stem_old.task_seq'::regclass) CONSTRAINT staged_48077e3d68270b0d20aee6b540cdb582_0_seq_not_null NOT NULL,
    priority smallint CONSTRAINT staged_48077e3d68270b0d20aee6b540cdb582_0_priority_not_null NOT NULL,
    visibility_timeout double precision,
    queue text CONSTRAINT staged_48077e3d68270b0d20aee6b540cdb582_0_queue_not_null NOT NULL COLLATE pg_catalog."C",
    name text CONSTRAINT staged_48077e3d68270b0d20aee6b540cdb582_0_name_not_null NOT NULL COLLATE pg_catalog."C",
    meta text DEFAULT '{}'::text CONSTRAINT staged_48077e3d68270b0d20aee6b540cdb582_0_meta_not_null NOT NULL,
    body text CONSTRAINT staged_48077e3d68270b0d20aee6b540cdb582_0_body_not_null NOT NULL,
    ns text DEFAULT 'old'::text CONSTRAINT staged_48077e3d68270b0d20aee6b540cdb582_0_ns_not_null NOT NULL COLLATE pg_catalog."C",
    place smallint DEFAULT 0 CONSTRAINT staged_48077e3d68270b0d20aee6b540cdb582_0_place_not_null NOT NULL,
    due_at double precision DEFAULT '1794986330.917884'::double precision CONSTRAINT staged_48077e3d68270b0d20aee6b540cdb582_0_due_at_not_null NOT NULL,
    fence bigint DEFAULT 0 CONSTRAINT staged_48077e3d68270b0d20aee6b540cdb582_0_fence_not_null NOT NULL,
    enqueued_at double precision DEFAULT '1794986330.946039'::double precision CONSTRAINT staged_48077e3d68270b0d20aee6b540cdb582_0_enqueued_at_not_null NOT NULL,
    updated_at double precision DEFAULT '1794986330.946039'::double precision CONSTRAINT staged_48077e3d68270b0d20aee6b540cdb582_0_updated_at_not_null NOT NULL,
    leased_until double precision,
    started_at double precision,
    heartbeat_at double precision,
    expires_at double precision,
    attempt integer DEFAULT 0 CONSTRAINT staged_48077e3d68270b0d20aee6b540cdb582_0_attempt_not_null NOT NULL,
    deaths integer DEFAULT 0 CONSTRAINT staged_48077e3d68270b0d20aee6b540cdb582_0_deaths_not_null NOT NULL,
    worker text,
    unique_key text COLLATE pg_catalog."C",
    error text,
    progress text
)
INHERITS (stem_old.messages)
WITH (fillfactor='90', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='100000');


--
-- Name: places; Type: TABLE; Schema: stem_old; Owner: -
--

CREATE TABLE stem_old.places (
    ns text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    expires_at double precision NOT NULL
)
WITH (fillfactor='50');


--
-- Name: records; Type: TABLE; Schema: stem_old; Owner: -
--

CREATE TABLE stem_old.records (
    ns text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    fence bigint NOT NULL,
    enqueued_at double precision NOT NULL,
    updated_at double precision NOT NULL,
    started_at double precision,
    finished_at double precision,
    heartbeat_at double precision,
    kept_from double precision,
    attempt integer NOT NULL,
    priority smallint NOT NULL,
    state text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    worker text,
    payload text,
    error text,
    progress text,
    meta text NOT NULL
);


--
-- Name: revoke_versions; Type: TABLE; Schema: stem_old; Owner: -
--

CREATE TABLE stem_old.revoke_versions (
    ns text NOT NULL COLLATE pg_catalog."C",
    version bigint NOT NULL
);


--
-- Name: revokes; Type: TABLE; Schema: stem_old; Owner: -
--

CREATE TABLE stem_old.revokes (
    ns text NOT NULL COLLATE pg_catalog."C",
    task_id text NOT NULL COLLATE pg_catalog."C",
    version bigint NOT NULL,
    created_at double precision NOT NULL,
    expires_at double precision,
    body text NOT NULL
);


--
-- Name: rollups; Type: TABLE; Schema: stem_old; Owner: -
--

CREATE TABLE stem_old.rollups (
    ns text NOT NULL COLLATE pg_catalog."C",
    minute bigint NOT NULL,
    digest text NOT NULL COLLATE pg_catalog."C",
    body text NOT NULL
)
WITH (fillfactor='50');


--
-- Name: seats; Type: TABLE; Schema: stem_old; Owner: -
--

CREATE UNLOGGED TABLE stem_old.seats (
    ns text NOT NULL COLLATE pg_catalog."C",
    number bigint NOT NULL,
    until double precision NOT NULL,
    lease double precision NOT NULL,
    free integer NOT NULL,
    queues text[] NOT NULL,
    given text[] NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_cost_delay='0');


--
-- Name: stage_jobs; Type: TABLE; Schema: stem_old; Owner: -
--

CREATE TABLE stem_old.stage_jobs (
    ns text NOT NULL COLLATE pg_catalog."C",
    job text NOT NULL COLLATE pg_catalog."C",
    staged_at double precision NOT NULL,
    promoted_at double precision,
    created bigint DEFAULT 0 NOT NULL,
    known bigint DEFAULT 0 NOT NULL
);


--
-- Name: stage_parts; Type: TABLE; Schema: stem_old; Owner: -
--

CREATE UNLOGGED TABLE stem_old.stage_parts (
    ns text NOT NULL COLLATE pg_catalog."C",
    job text NOT NULL COLLATE pg_catalog."C",
    part text NOT NULL COLLATE pg_catalog."C",
    rows bigint NOT NULL,
    low text NOT NULL COLLATE pg_catalog."C",
    high text NOT NULL COLLATE pg_catalog."C",
    slotted bigint DEFAULT 0 NOT NULL,
    is_rising boolean DEFAULT true NOT NULL
);


--
-- Name: staged_c97ca1c540044ef82f73392aa66cc39c; Type: TABLE; Schema: stem_old; Owner: -
--

CREATE UNLOGGED TABLE stem_old.staged_c97ca1c540044ef82f73392aa66cc39c (
    part text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    priority smallint NOT NULL,
    delay_seconds double precision,
    due_at double precision,
    lifetime_seconds double precision,
    expires_at double precision,
    visibility_timeout double precision,
    meta text,
    body text NOT NULL
);


--
-- Name: staged_c97ca1c540044ef82f73392aa66cc39c_0; Type: TABLE; Schema: stem_old; Owner: -
--

CREATE TABLE stem_old.staged_c97ca1c540044ef82f73392aa66cc39c_0 (
    part text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    seq bigint DEFAULT nextval('stem_old.task_seq'::regclass) NOT NULL,
    priority smallint NOT NULL,
    visibility_timeout double precision,
    queue text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    meta text DEFAULT '{}'::text NOT NULL,
    body text NOT NULL
)
WITH (fillfactor='90', autovacuum_enabled=off);


--
-- Name: staged_c97ca1c540044ef82f73392aa66cc39c_0e; Type: TABLE; Schema: stem_old; Owner: -
--

CREATE TABLE stem_old.staged_c97ca1c540044ef82f73392aa66cc39c_0e (
    n bigint DEFAULT nextval('stem_old.event_n'::regclass) NOT NULL,
    task_id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C"
)
WITH (autovacuum_enabled=off);


--
-- Name: uniques; Type: TABLE; Schema: stem_old; Owner: -
--

CREATE TABLE stem_old.uniques (
    ns text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    held_until double precision
);


--
-- Name: upkeep; Type: TABLE; Schema: stem_old; Owner: -
--

CREATE TABLE stem_old.upkeep (
    ns text NOT NULL COLLATE pg_catalog."C",
    pruned_at double precision NOT NULL
);


--
-- Name: version; Type: TABLE; Schema: stem_old; Owner: -
--

CREATE TABLE stem_old.version (
    version integer NOT NULL,
    made_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);


--
-- Name: watch; Type: TABLE; Schema: stem_old; Owner: -
--

CREATE UNLOGGED TABLE stem_old.watch (
    ns text NOT NULL COLLATE pg_catalog."C",
    seen_at double precision NOT NULL,
    since double precision NOT NULL
)
WITH (fillfactor='50');


--
-- Data for Name: buckets; Type: TABLE DATA; Schema: stem_old; Owner: -
--



--
-- Data for Name: dead; Type: TABLE DATA; Schema: stem_old; Owner: -
--



--
-- Data for Name: events; Type: TABLE DATA; Schema: stem_old; Owner: -
--

INSERT INTO stem_old.events (ns, txid, n, at, enqueued_at, started_at, attempt, kind, task_id, name, queue, worker, data) VALUES ('old', '753', 1, 1794986330.846049, 1794986330.846049, NULL, 0, 'enqueued', 'plain', 'demo.add', 'default', NULL, NULL);
INSERT INTO stem_old.events (ns, txid, n, at, enqueued_at, started_at, attempt, kind, task_id, name, queue, worker, data) VALUES ('old', '764', 12, 1794986330.9984, 1794986330.946039, 1794986330.9984, 0, 'started', 'a0', 'demo.add', 'default', 'gone', NULL);
INSERT INTO stem_old.events (ns, txid, n, at, enqueued_at, started_at, attempt, kind, task_id, name, queue, worker, data) VALUES ('old', '766', 13, 1794986330.505183, 1794986330.946039, 1794986330.505183, 0, 'started', 'a1', 'demo.add', 'default', 'gone', NULL);
INSERT INTO stem_old.events (ns, txid, n, at, enqueued_at, started_at, attempt, kind, task_id, name, queue, worker, data) VALUES ('old', '766', 14, 1794986331.005183, 1794986330.946039, 1794986330.505183, 0, 'succeeded', 'a1', 'demo.add', 'default', 'gone', '{}');
INSERT INTO stem_old.events (ns, txid, n, at, enqueued_at, started_at, attempt, kind, task_id, name, queue, worker, data) VALUES ('old', '766', 15, 1794986330.505183, 1794986330.846049, 1794986330.505183, 0, 'started', 'plain', 'demo.add', 'default', 'gone', NULL);
INSERT INTO stem_old.events (ns, txid, n, at, enqueued_at, started_at, attempt, kind, task_id, name, queue, worker, data) VALUES ('old', '766', 16, 1794986331.005183, 1794986330.846049, 1794986330.505183, 0, 'retried', 'plain', 'demo.add', 'default', 'gone', '{"delaySeconds":1.0,"error":{"type":"ValueError","message":"boom","retryable":true}}');


--
-- Data for Name: events_759_0; Type: TABLE DATA; Schema: stem_old; Owner: -
--

INSERT INTO stem_old.events_759_0 (n, task_id, name, queue, ns, txid, at, enqueued_at, started_at, attempt, kind, worker, data) VALUES (2, 'a0', 'demo.add', 'default', 'old', '759', 1794986330.946039, 1794986330.946039, NULL, 0, 'enqueued', NULL, NULL);
INSERT INTO stem_old.events_759_0 (n, task_id, name, queue, ns, txid, at, enqueued_at, started_at, attempt, kind, worker, data) VALUES (3, 'a1', 'demo.add', 'default', 'old', '759', 1794986330.946039, 1794986330.946039, NULL, 0, 'enqueued', NULL, NULL);
INSERT INTO stem_old.events_759_0 (n, task_id, name, queue, ns, txid, at, enqueued_at, started_at, attempt, kind, worker, data) VALUES (4, 'a2', 'demo.add', 'default', 'old', '759', 1794986330.946039, 1794986330.946039, NULL, 0, 'enqueued', NULL, NULL);
INSERT INTO stem_old.events_759_0 (n, task_id, name, queue, ns, txid, at, enqueued_at, started_at, attempt, kind, worker, data) VALUES (5, 'a3', 'demo.add', 'default', 'old', '759', 1794986330.946039, 1794986330.946039, NULL, 0, 'enqueued', NULL, NULL);
INSERT INTO stem_old.events_759_0 (n, task_id, name, queue, ns, txid, at, enqueued_at, started_at, attempt, kind, worker, data) VALUES (6, 'a4', 'demo.add', 'default', 'old', '759', 1794986330.946039, 1794986330.946039, NULL, 0, 'enqueued', NULL, NULL);
INSERT INTO stem_old.events_759_0 (n, task_id, name, queue, ns, txid, at, enqueued_at, started_at, attempt, kind, worker, data) VALUES (7, 'b0', 'demo.add', 'default', 'old', '759', 1794986330.946039, 1794986330.946039, NULL, 0, 'enqueued', NULL, NULL);
INSERT INTO stem_old.events_759_0 (n, task_id, name, queue, ns, txid, at, enqueued_at, started_at, attempt, kind, worker, data) VALUES (8, 'b1', 'demo.add', 'default', 'old', '759', 1794986330.946039, 1794986330.946039, NULL, 0, 'enqueued', NULL, NULL);
INSERT INTO stem_old.events_759_0 (n, task_id, name, queue, ns, txid, at, enqueued_at, started_at, attempt, kind, worker, data) VALUES (9, 'b2', 'demo.add', 'default', 'old', '759', 1794986330.946039, 1794986330.946039, NULL, 0, 'enqueued', NULL, NULL);
INSERT INTO stem_old.events_759_0 (n, task_id, name, queue, ns, txid, at, enqueued_at, started_at, attempt, kind, worker, data) VALUES (10, 'b3', 'demo.add', 'default', 'old', '759', 1794986330.946039, 1794986330.946039, NULL, 0, 'enqueued', NULL, NULL);
INSERT INTO stem_old.events_759_0 (n, task_id, name, queue, ns, txid, at, enqueued_at, started_at, attempt, kind, worker, data) VALUES (11, 'b4', 'demo.add', 'default', 'old', '759', 1794986330.946039, 1794986330.946039, NULL, 0, 'enqueued', NULL, NULL);


--
-- Data for Name: heartbeats; Type: TABLE DATA; Schema: stem_old; Owner: -
--



--
-- Data for Name: holders; Type: TABLE DATA; Schema: stem_old; Owner: -
--



--
-- Data for Name: locks; Type: TABLE DATA; Schema: stem_old; Owner: -
--



--
-- Data for Name: lost; Type: TABLE DATA; Schema: stem_old; Owner: -
--



--
-- Data for Name: mail; Type: TABLE DATA; Schema: stem_old; Owner: -
--



--
-- Data for Name: messages; Type: TABLE DATA; Schema: stem_old; Owner: -
--

INSERT INTO stem_old.messages (ns, id, seq, fence, due_at, enqueued_at, updated_at, leased_until, started_at, heartbeat_at, expires_at, visibility_timeout, attempt, deaths, priority, place, queue, name, worker, unique_key, error, progress, meta, body) VALUES ('old', 'plain', 1, 1794986330987009, 1794986332.005183, 1794986330.846049, 1794986331.005183, NULL, NULL, NULL, NULL, NULL, 1, 0, 5, 1, 'default', 'demo.add', NULL, NULL, '{"type":"ValueError","message":"boom","stack":"Traceback: line 1","retryable":true}', NULL, '{}', '{"id":"plain","name":"demo.add","args":{},"headers":{},"enqueuedAt":"2026-11-18T07:18:50.833552Z","notBefore":null,"priority":5,"attempt":0,"maxRetries":3,"visibilityTimeout":null,"queue":"default","meta":{},"version":1}');


--
-- Data for Name: messages_759_0; Type: TABLE DATA; Schema: stem_old; Owner: -
--

INSERT INTO stem_old.messages_759_0 (part, id, seq, priority, visibility_timeout, queue, name, meta, body, ns, place, due_at, fence, enqueued_at, updated_at, leased_until, started_at, heartbeat_at, expires_at, attempt, deaths, worker, unique_key, error, progress) VALUES ('a', 'a2', 4, 5, NULL, 'default', 'demo.add', '{}', '{"id":"a2","name":"demo.add","args":{},"headers":{},"enqueuedAt":"2026-11-18T07:18:50.868605Z","notBefore":null,"priority":5,"attempt":0,"maxRetries":3,"visibilityTimeout":null,"queue":"default","meta":{},"version":1}', 'old', 0, 1794986330.917884, 0, 1794986330.946039, 1794986330.946039, NULL, NULL, NULL, NULL, 0, 0, NULL, NULL, NULL, NULL);
INSERT INTO stem_old.messages_759_0 (part, id, seq, priority, visibility_timeout, queue, name, meta, body, ns, place, due_at, fence, enqueued_at, updated_at, leased_until, started_at, heartbeat_at, expires_at, attempt, deaths, worker, unique_key, error, progress) VALUES ('a', 'a3', 5, 5, NULL, 'default', 'demo.add', '{}', '{"id":"a3","name":"demo.add","args":{},"headers":{},"enqueuedAt":"2026-11-18T07:18:50.868607Z","notBefore":null,"priority":5,"attempt":0,"maxRetries":3,"visibilityTimeout":null,"queue":"default","meta":{},"version":1}', 'old', 0, 1794986330.917884, 0, 1794986330.946039, 1794986330.946039, NULL, NULL, NULL, NULL, 0, 0, NULL, NULL, NULL, NULL);
INSERT INTO stem_old.messages_759_0 (part, id, seq, priority, visibility_timeout, queue, name, meta, body, ns, place, due_at, fence, enqueued_at, updated_at, leased_until, started_at, heartbeat_at, expires_at, attempt, deaths, worker, unique_key, error, progress) VALUES ('a', 'a4', 6, 5, NULL, 'default', 'demo.add', '{}', '{"id":"a4","name":"demo.add","args":{},"headers":{},"enqueuedAt":"2026-11-18T07:18:50.868608Z","notBefore":null,"priority":5,"attempt":0,"maxRetries":3,"visibilityTimeout":null,"queue":"default","meta":{},"version":1}', 'old', 0, 1794986330.917884, 0, 1794986330.946039, 1794986330.946039, NULL, NULL, NULL, NULL, 0, 0, NULL, NULL, NULL, NULL);
INSERT INTO stem_old.messages_759_0 (part, id, seq, priority, visibility_timeout, queue, name, meta, body, ns, place, due_at, fence, enqueued_at, updated_at, leased_until, started_at, heartbeat_at, expires_at, attempt, deaths, worker, unique_key, error, progress) VALUES ('b', 'b0', 7, 5, NULL, 'default', 'demo.add', '{}', '{"id":"b0","name":"demo.add","args":{},"headers":{},"enqueuedAt":"2026-11-18T07:18:50.899993Z","notBefore":null,"priority":5,"attempt":0,"maxRetries":3,"visibilityTimeout":null,"queue":"default","meta":{},"version":1}', 'old', 0, 1794986330.917884, 0, 1794986330.946039, 1794986330.946039, NULL, NULL, NULL, NULL, 0, 0, NULL, NULL, NULL, NULL);
INSERT INTO stem_old.messages_759_0 (part, id, seq, priority, visibility_timeout, queue, name, meta, body, ns, place, due_at, fence, enqueued_at, updated_at, leased_until, started_at, heartbeat_at, expires_at, attempt, deaths, worker, unique_key, error, progress) VALUES ('b', 'b1', 8, 5, NULL, 'default', 'demo.add', '{}', '{"id":"b1","name":"demo.add","args":{},"headers":{},"enqueuedAt":"2026-11-18T07:18:50.899999Z","notBefore":null,"priority":5,"attempt":0,"maxRetries":3,"visibilityTimeout":null,"queue":"default","meta":{},"version":1}', 'old', 0, 1794986330.917884, 0, 1794986330.946039, 1794986330.946039, NULL, NULL, NULL, NULL, 0, 0, NULL, NULL, NULL, NULL);
INSERT INTO stem_old.messages_759_0 (part, id, seq, priority, visibility_timeout, queue, name, meta, body, ns, place, due_at, fence, enqueued_at, updated_at, leased_until, started_at, heartbeat_at, expires_at, attempt, deaths, worker, unique_key, error, progress) VALUES ('b', 'b2', 9, 5, NULL, 'default', 'demo.add', '{}', '{"id":"b2","name":"demo.add","args":{},"headers":{},"enqueuedAt":"2026-11-18T07:18:50.900000Z","notBefore":null,"priority":5,"attempt":0,"maxRetries":3,"visibilityTimeout":null,"queue":"default","meta":{},"version":1}', 'old', 0, 1794986330.917884, 0, 1794986330.946039, 1794986330.946039, NULL, NULL, NULL, NULL, 0, 0, NULL, NULL, NULL, NULL);
INSERT INTO stem_old.messages_759_0 (part, id, seq, priority, visibility_timeout, queue, name, meta, body, ns, place, due_at, fence, enqueued_at, updated_at, leased_until, started_at, heartbeat_at, expires_at, attempt, deaths, worker, unique_key, error, progress) VALUES ('b', 'b3', 10, 5, NULL, 'default', 'demo.add', '{}', '{"id":"b3","name":"demo.add","args":{},"headers":{},"enqueuedAt":"2026-11-18T07:18:50.900002Z","notBefore":null,"priority":5,"attempt":0,"maxRetries":3,"visibilityTimeout":null,"queue":"default","meta":{},"version":1}', 'old', 0, 1794986330.917884, 0, 1794986330.946039, 1794986330.946039, NULL, NULL, NULL, NULL, 0, 0, NULL, NULL, NULL, NULL);
INSERT INTO stem_old.messages_759_0 (part, id, seq, priority, visibility_timeout, queue, name, meta, body, ns, place, due_at, fence, enqueued_at, updated_at, leased_until, started_at, heartbeat_at, expires_at, attempt, deaths, worker, unique_key, error, progress) VALUES ('b', 'b4', 11, 5, NULL, 'default', 'demo.add', '{}', '{"id":"b4","name":"demo.add","args":{},"headers":{},"enqueuedAt":"2026-11-18T07:18:50.900004Z","notBefore":null,"priority":5,"attempt":0,"maxRetries":3,"visibilityTimeout":null,"queue":"default","meta":{},"version":1}', 'old', 0, 1794986330.917884, 0, 1794986330.946039, 1794986330.946039, NULL, NULL, NULL, NULL, 0, 0, NULL, NULL, NULL, NULL);
INSERT INTO stem_old.messages_759_0 (part, id, seq, priority, visibility_timeout, queue, name, meta, body, ns, place, due_at, fence, enqueued_at, updated_at, leased_until, started_at, heartbeat_at, expires_at, attempt, deaths, worker, unique_key, error, progress) VALUES ('a', 'a0', 2, 5, NULL, 'default', 'demo.add', '{}', '{"id":"a0","name":"demo.add","args":{},"headers":{},"enqueuedAt":"2026-11-18T07:18:50.868597Z","notBefore":null,"priority":5,"attempt":0,"maxRetries":3,"visibilityTimeout":null,"queue":"default","meta":{},"version":1}', 'old', 2, 1794986330.917884, 1794986330987009, 1794986330.946039, 1794986330.9984, 1794986331.987009, 1794986330.9984, NULL, NULL, 0, 0, 'gone', NULL, NULL, NULL);


--
-- Data for Name: places; Type: TABLE DATA; Schema: stem_old; Owner: -
--



--
-- Data for Name: records; Type: TABLE DATA; Schema: stem_old; Owner: -
--

INSERT INTO stem_old.records (ns, id, seq, fence, enqueued_at, updated_at, started_at, finished_at, heartbeat_at, kept_from, attempt, priority, state, queue, name, worker, payload, error, progress, meta) VALUES ('old', 'a1', 3, 1794986330987009, 1794986330.946039, 1794986331.005183, 1794986330.505183, 1794986331.005183, NULL, 1794986331.005183, 0, 5, 'succeeded', 'default', 'demo.add', 'gone', '7', NULL, NULL, '{}');


--
-- Data for Name: revoke_versions; Type: TABLE DATA; Schema: stem_old; Owner: -
--



--
-- Data for Name: revokes; Type: TABLE DATA; Schema: stem_old; Owner: -
--



--
-- Data for Name: rollups; Type: TABLE DATA; Schema: stem_old; Owner: -
--



--
-- Data for Name: seats; Type: TABLE DATA; Schema: stem_old; Owner: -
--



--
-- Data for Name: stage_jobs; Type: TABLE DATA; Schema: stem_old; Owner: -
--

INSERT INTO stem_old.stage_jobs (ns, job, staged_at, promoted_at, created, known) VALUES ('old', 'large', 1794986330.872201, 1794986330.946039, 10, 0);
INSERT INTO stem_old.stage_jobs (ns, job, staged_at, promoted_at, created, known) VALUES ('old', 'open', 1794986331.020296, NULL, 0, 0);


--
-- Data for Name: stage_parts; Type: TABLE DATA; Schema: stem_old; Owner: -
--

INSERT INTO stem_old.stage_parts (ns, job, part, rows, low, high, slotted, is_rising) VALUES ('old', 'open', 'c', 4, 'c0', 'c3', 3, true);


--
-- Data for Name: staged_c97ca1c540044ef82f73392aa66cc39c; Type: TABLE DATA; Schema: stem_old; Owner: -
--

INSERT INTO stem_old.staged_c97ca1c540044ef82f73392aa66cc39c (part, id, name, queue, priority, delay_seconds, due_at, lifetime_seconds, expires_at, visibility_timeout, meta, body) VALUES ('c', 'c3', 'demo.add', 'default', 5, 0.01, NULL, NULL, NULL, NULL, '{}', '{"id":"c3","name":"demo.add","args":{},"headers":{},"enqueuedAt":"2026-11-18T07:18:51.039418Z","notBefore":null,"priority":5,"attempt":0,"maxRetries":3,"visibilityTimeout":null,"queue":"default","meta":{},"version":1}');


--
-- Data for Name: staged_c97ca1c540044ef82f73392aa66cc39c_0; Type: TABLE DATA; Schema: stem_old; Owner: -
--

INSERT INTO stem_old.staged_c97ca1c540044ef82f73392aa66cc39c_0 (part, id, seq, priority, visibility_timeout, queue, name, meta, body) VALUES ('c', 'c0', 12, 5, NULL, 'default', 'demo.add', '{}', '{"id":"c0","name":"demo.add","args":{},"headers":{},"enqueuedAt":"2026-11-18T07:18:51.020150Z","notBefore":null,"priority":5,"attempt":0,"maxRetries":3,"visibilityTimeout":null,"queue":"default","meta":{},"version":1}');
INSERT INTO stem_old.staged_c97ca1c540044ef82f73392aa66cc39c_0 (part, id, seq, priority, visibility_timeout, queue, name, meta, body) VALUES ('c', 'c1', 13, 5, NULL, 'default', 'demo.add', '{}', '{"id":"c1","name":"demo.add","args":{},"headers":{},"enqueuedAt":"2026-11-18T07:18:51.020156Z","notBefore":null,"priority":5,"attempt":0,"maxRetries":3,"visibilityTimeout":null,"queue":"default","meta":{},"version":1}');
INSERT INTO stem_old.staged_c97ca1c540044ef82f73392aa66cc39c_0 (part, id, seq, priority, visibility_timeout, queue, name, meta, body) VALUES ('c', 'c2', 14, 5, NULL, 'default', 'demo.add', '{}', '{"id":"c2","name":"demo.add","args":{},"headers":{},"enqueuedAt":"2026-11-18T07:18:51.020158Z","notBefore":null,"priority":5,"attempt":0,"maxRetries":3,"visibilityTimeout":null,"queue":"default","meta":{},"version":1}');


--
-- Data for Name: staged_c97ca1c540044ef82f73392aa66cc39c_0e; Type: TABLE DATA; Schema: stem_old; Owner: -
--

INSERT INTO stem_old.staged_c97ca1c540044ef82f73392aa66cc39c_0e (n, task_id, name, queue) VALUES (17, 'c0', 'demo.add', 'default');
INSERT INTO stem_old.staged_c97ca1c540044ef82f73392aa66cc39c_0e (n, task_id, name, queue) VALUES (18, 'c1', 'demo.add', 'default');
INSERT INTO stem_old.staged_c97ca1c540044ef82f73392aa66cc39c_0e (n, task_id, name, queue) VALUES (19, 'c2', 'demo.add', 'default');


--
-- Data for Name: uniques; Type: TABLE DATA; Schema: stem_old; Owner: -
--



--
-- Data for Name: upkeep; Type: TABLE DATA; Schema: stem_old; Owner: -
--



--
-- Data for Name: version; Type: TABLE DATA; Schema: stem_old; Owner: -
--

INSERT INTO stem_old.version (version, made_at) VALUES (12, '2026-11-18 07:18:50.792743+00');


--
-- Data for Name: watch; Type: TABLE DATA; Schema: stem_old; Owner: -
--



--
-- Name: dead_seq_no; Type: SEQUENCE SET; Schema: stem_old; Owner: -
--

SELECT pg_catalog.setval('stem_old.dead_seq_no', 1, false);


--
-- Name: event_n; Type: SEQUENCE SET; Schema: stem_old; Owner: -
--

SELECT pg_catalog.setval('stem_old.event_n', 100, true);


--
-- Name: lock_fence; Type: SEQUENCE SET; Schema: stem_old; Owner: -
--

SELECT pg_catalog.setval('stem_old.lock_fence', 1, false);


--
-- Name: mail_number; Type: SEQUENCE SET; Schema: stem_old; Owner: -
--

SELECT pg_catalog.setval('stem_old.mail_number', 1, false);


--
-- Name: task_seq; Type: SEQUENCE SET; Schema: stem_old; Owner: -
--

SELECT pg_catalog.setval('stem_old.task_seq', 14, true);


--
-- Name: buckets buckets_pkey; Type: CONSTRAINT; Schema: stem_old; Owner: -
--

ALTER TABLE ONLY stem_old.buckets
    ADD CONSTRAINT buckets_pkey PRIMARY KEY (ns, key);


--
-- Name: dead dead_pkey; Type: CONSTRAINT; Schema: stem_old; Owner: -
--

ALTER TABLE ONLY stem_old.dead
    ADD CONSTRAINT dead_pkey PRIMARY KEY (ns, id);


--
-- Name: events events_pkey; Type: CONSTRAINT; Schema: stem_old; Owner: -
--

ALTER TABLE ONLY stem_old.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (ns, txid, n);


--
-- Name: heartbeats heartbeats_pkey; Type: CONSTRAINT; Schema: stem_old; Owner: -
--

ALTER TABLE ONLY stem_old.heartbeats
    ADD CONSTRAINT heartbeats_pkey PRIMARY KEY (ns, worker_id);


--
-- Name: holders holders_pkey; Type: CONSTRAINT; Schema: stem_old; Owner: -
--

ALTER TABLE ONLY stem_old.holders
    ADD CONSTRAINT holders_pkey PRIMARY KEY (ns, key, holder);


--
-- Name: locks locks_pkey; Type: CONSTRAINT; Schema: stem_old; Owner: -
--

ALTER TABLE ONLY stem_old.locks
    ADD CONSTRAINT locks_pkey PRIMARY KEY (ns, name);


--
-- Name: lost lost_pkey; Type: CONSTRAINT; Schema: stem_old; Owner: -
--

ALTER TABLE ONLY stem_old.lost
    ADD CONSTRAINT lost_pkey PRIMARY KEY (ns, id, fence);


--
-- Name: mail mail_pkey; Type: CONSTRAINT; Schema: stem_old; Owner: -
--

ALTER TABLE ONLY stem_old.mail
    ADD CONSTRAINT mail_pkey PRIMARY KEY (ns, is_channel, name, number);


--
-- Name: messages messages_pkey; Type: CONSTRAINT; Schema: stem_old; Owner: -
--

ALTER TABLE ONLY stem_old.messages
    ADD CONSTRAINT messages_pkey PRIMARY KEY (id, ns);


--
-- Name: places places_pkey; Type: CONSTRAINT; Schema: stem_old; Owner: -
--

ALTER TABLE ONLY stem_old.places
    ADD CONSTRAINT places_pkey PRIMARY KEY (ns, key);


--
-- Name: records records_pkey; Type: CONSTRAINT; Schema: stem_old; Owner: -
--

ALTER TABLE ONLY stem_old.records
    ADD CONSTRAINT records_pkey PRIMARY KEY (id, ns);


--
-- Name: revoke_versions revoke_versions_pkey; Type: CONSTRAINT; Schema: stem_old; Owner: -
--

ALTER TABLE ONLY stem_old.revoke_versions
    ADD CONSTRAINT revoke_versions_pkey PRIMARY KEY (ns);


--
-- Name: revokes revokes_pkey; Type: CONSTRAINT; Schema: stem_old; Owner: -
--

ALTER TABLE ONLY stem_old.revokes
    ADD CONSTRAINT revokes_pkey PRIMARY KEY (ns, task_id);


--
-- Name: rollups rollups_pkey; Type: CONSTRAINT; Schema: stem_old; Owner: -
--

ALTER TABLE ONLY stem_old.rollups
    ADD CONSTRAINT rollups_pkey PRIMARY KEY (ns, minute, digest);


--
-- Name: seats seats_pkey; Type: CONSTRAINT; Schema: stem_old; Owner: -
--

ALTER TABLE ONLY stem_old.seats
    ADD CONSTRAINT seats_pkey PRIMARY KEY (ns, number);


--
-- Name: stage_jobs stage_jobs_pkey; Type: CONSTRAINT; Schema: stem_old; Owner: -
--

ALTER TABLE ONLY stem_old.stage_jobs
    ADD CONSTRAINT stage_jobs_pkey PRIMARY KEY (ns, job);


--
-- Name: stage_parts stage_parts_pkey; Type: CONSTRAINT; Schema: stem_old; Owner: -
--

ALTER TABLE ONLY stem_old.stage_parts
    ADD CONSTRAINT stage_parts_pkey PRIMARY KEY (ns, job, part);


--
-- Name: messages_759_0 staged_48077e3d68270b0d20aee6b540cdb582_0_pkey; Type: CONSTRAINT; Schema: stem_old; Owner: -
--

ALTER TABLE ONLY stem_old.messages_759_0
    ADD CONSTRAINT staged_48077e3d68270b0d20aee6b540cdb582_0_pkey PRIMARY KEY (id, ns);


--
-- Name: events_759_0 staged_48077e3d68270b0d20aee6b540cdb582_0e_pkey; Type: CONSTRAINT; Schema: stem_old; Owner: -
--

ALTER TABLE ONLY stem_old.events_759_0
    ADD CONSTRAINT staged_48077e3d68270b0d20aee6b540cdb582_0e_pkey PRIMARY KEY (ns, txid, n);


--
-- Name: uniques uniques_pkey; Type: CONSTRAINT; Schema: stem_old; Owner: -
--

ALTER TABLE ONLY stem_old.uniques
    ADD CONSTRAINT uniques_pkey PRIMARY KEY (ns, key);


--
-- Name: upkeep upkeep_pkey; Type: CONSTRAINT; Schema: stem_old; Owner: -
--

ALTER TABLE ONLY stem_old.upkeep
    ADD CONSTRAINT upkeep_pkey PRIMARY KEY (ns);


--
-- Name: watch watch_pkey; Type: CONSTRAINT; Schema: stem_old; Owner: -
--

ALTER TABLE ONLY stem_old.watch
    ADD CONSTRAINT watch_pkey PRIMARY KEY (ns);


--
-- Name: buckets_expiry; Type: INDEX; Schema: stem_old; Owner: -
--

CREATE INDEX buckets_expiry ON stem_old.buckets USING btree (ns, expires_at);


--
-- Name: dead_seq; Type: INDEX; Schema: stem_old; Owner: -
--

CREATE INDEX dead_seq ON stem_old.dead USING btree (ns, seq);


--
-- Name: holders_expiry; Type: INDEX; Schema: stem_old; Owner: -
--

CREATE INDEX holders_expiry ON stem_old.holders USING btree (ns, expires_at);


--
-- Name: mail_expiry; Type: INDEX; Schema: stem_old; Owner: -
--

CREATE INDEX mail_expiry ON stem_old.mail USING btree (ns, expires_at);


--
-- Name: messages_delayed; Type: INDEX; Schema: stem_old; Owner: -
--

CREATE INDEX messages_delayed ON stem_old.messages USING btree (ns, queue, due_at, seq) WHERE (place = 1);


--
-- Name: messages_leased; Type: INDEX; Schema: stem_old; Owner: -
--

CREATE INDEX messages_leased ON stem_old.messages USING btree (ns, seq) WHERE (place = 2);


--
-- Name: messages_ready; Type: INDEX; Schema: stem_old; Owner: -
--

CREATE INDEX messages_ready ON stem_old.messages USING btree (ns, queue, priority DESC, seq) WHERE (place = 0);


--
-- Name: messages_seq; Type: INDEX; Schema: stem_old; Owner: -
--

CREATE INDEX messages_seq ON stem_old.messages USING btree (ns, seq) WHERE (seq > 0);


--
-- Name: places_expiry; Type: INDEX; Schema: stem_old; Owner: -
--

CREATE INDEX places_expiry ON stem_old.places USING btree (ns, expires_at);


--
-- Name: records_kept; Type: INDEX; Schema: stem_old; Owner: -
--

CREATE INDEX records_kept ON stem_old.records USING btree (ns, kept_from) WHERE (kept_from IS NOT NULL);


--
-- Name: records_seq; Type: INDEX; Schema: stem_old; Owner: -
--

CREATE INDEX records_seq ON stem_old.records USING btree (ns, seq) WHERE (seq > 0);


--
-- Name: records_unusual; Type: INDEX; Schema: stem_old; Owner: -
--

CREATE INDEX records_unusual ON stem_old.records USING btree (ns, state, seq) WHERE (state <> 'succeeded'::text);


--
-- Name: revokes_expiry; Type: INDEX; Schema: stem_old; Owner: -
--

CREATE INDEX revokes_expiry ON stem_old.revokes USING btree (ns, expires_at) WHERE (expires_at IS NOT NULL);


--
-- Name: revokes_version; Type: INDEX; Schema: stem_old; Owner: -
--

CREATE INDEX revokes_version ON stem_old.revokes USING btree (ns, version);


--
-- Name: staged_48077e3d68270b0d20aee6b540cdb582_0_ns_seq_idx; Type: INDEX; Schema: stem_old; Owner: -
--

CREATE INDEX staged_48077e3d68270b0d20aee6b540cdb582_0_ns_seq_idx ON stem_old.messages_759_0 USING btree (ns, seq) WHERE (place = 2);


--
-- Name: staged_48077e3d68270b0d20aee6b540cdb582_0_ns_seq_idx1; Type: INDEX; Schema: stem_old; Owner: -
--

CREATE INDEX staged_48077e3d68270b0d20aee6b540cdb582_0_ns_seq_idx1 ON stem_old.messages_759_0 USING btree (ns, seq) WHERE (seq > 0);


--
-- Name: staged_48077e3d68270b0d20aee6b540cdb582_ns_queue_due_at_seq_idx; Type: INDEX; Schema: stem_old; Owner: -
--

CREATE INDEX staged_48077e3d68270b0d20aee6b540cdb582_ns_queue_due_at_seq_idx ON stem_old.messages_759_0 USING btree (ns, queue, due_at, seq) WHERE (place = 1);


--
-- Name: staged_48077e3d68270b0d20aee6b540cdb5_ns_queue_priority_seq_idx; Type: INDEX; Schema: stem_old; Owner: -
--

CREATE INDEX staged_48077e3d68270b0d20aee6b540cdb5_ns_queue_priority_seq_idx ON stem_old.messages_759_0 USING btree (ns, queue, priority DESC, seq) WHERE (place = 0);


--
-- Name: uniques_until; Type: INDEX; Schema: stem_old; Owner: -
--

CREATE INDEX uniques_until ON stem_old.uniques USING btree (ns, held_until) WHERE (held_until IS NOT NULL);


--
-- PostgreSQL database dump complete
--


