-- Broker.settle for any batch: write each ending whole: record, acknowledgement, meta, events, unique keys.
-- kinds: D done, R retry, X dead, Q requeue, T requeue by a limiter, F requeue after a death, B both, C cancelled.
-- Answers with the places of the held leases, or null for all.
CREATE OR REPLACE FUNCTION settle(
    _ns text, _worker text, _ids text, _fences text, _runs text, _payloads text, _metas text, _progress text,
    _kinds text, _delays text, _errors text, _reasons text, _letters text, _data text
) RETURNS integer[] LANGUAGE plpgsql AS $$
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
END $$
