-- Broker.settle for any batch: write each ending whole: record, acknowledgement, meta, events, unique keys, and unless the caller
-- does that later (_defers) what the ends mean for other tasks.
-- kinds: D done, R retry, X dead, Q requeue, T requeue by a limiter, F requeue after a death, B both, C cancelled, P cancelled and
-- counts as a success, W blocked, for settle_blocked to decide.
-- Returns the places of the held leases, or null if all are held; and what carry_on tells, as columns.
CREATE OR REPLACE FUNCTION settle_mixed(
    _ns text, _worker text, _ids text, _fences text, _runs text, _payloads text, _metas text, _progress text,
    _kinds text, _delays text, _errors text, _reasons text, _letters text, _data text, _events text, _defers boolean,
    OUT held_places integer[], OUT told_queues text, OUT told_ended text
) LANGUAGE plpgsql AS $$
DECLARE
    _now float8 := now_seconds();
    ids text[] := cells(_ids);
    fences text[] := cells(_fences);
    rows tid[] := held(_ns, ids, fences);
    settled integer[];
    ended records[];
    ended_ids text[];
    cancelled_ids text[];
    keys text[];
    awaited text[];
    _told record;
BEGIN
    WITH batch AS MATERIALIZED (
        SELECT u.place::integer AS place, u.kind, u.payload, u.error AS new_error, u.reason::json #>> '{}' AS reason,
               u.letter, u.data, u.kind IN ('D', 'X', 'C', 'P') AS is_ended,
               CASE WHEN s.is_sent THEN _now ELSE _now + coalesce(u.delay::float8, 0) END AS next_due_at,
               CASE WHEN s.is_sent THEN NULL ELSE u.event::json #>> '{}' END AS event,
               m.row, m.id, m.seq, m.fence, m.enqueued_at, m.heartbeat_at, m.attempt, m.priority, m.queue, m.name,
               m.unique_key, m.visibility_timeout, m.body, m.dependents,
               coalesce(m.started_at, _now - u.run::float8) AS started_at,
               m.started_at IS NULL AND u.run IS NOT NULL AS is_new,
               coalesce(u.progress, m.progress) AS progress,
               CASE WHEN u.meta IS NULL OR right(m.meta, length(u.meta)) = u.meta THEN m.meta
                    -- A task may be throttled a thousand times: the last note takes the place of the one before.
                    WHEN u.kind = 'T' AND u.meta LIKE '{"throttled":%' THEN
                        regexp_replace(m.meta, E'\n\\{"throttled":[^\n]*$', '') || E'\n' || u.meta
                    ELSE m.meta || E'\n' || u.meta END AS meta
        FROM (SELECT x.ctid AS row, x.* FROM messages x WHERE x.ctid = ANY (rows) OFFSET 0) m
        JOIN unnest(ids, fences, cells(_runs), cells(_payloads), cells(_metas), cells(_progress), cells(_kinds),
                    cells(_delays), cells(_errors), cells(_reasons), cells(_letters), cells(_data), cells(_events))
             WITH ORDINALITY AS u (id, fence, run, payload, meta, progress, kind, delay, error, reason, letter, data, event, place)
             ON u.id = m.id AND u.fence::bigint = m.fence
        LEFT JOIN LATERAL (  -- the sender of an event locks the task, so it either comes before us or finds the task waiting
            SELECT true AS is_sent FROM steps p
            WHERE u.event IS NOT NULL AND p.ns = _ns AND p.id = m.id AND p.name = 'event:' || (u.event::json #>> '{}') OFFSET 0
        ) s ON true
    ), gone AS (
        DELETE FROM messages m WHERE m.ctid = ANY (ARRAY(SELECT row FROM batch WHERE is_ended))
    ), again AS (
        UPDATE messages m
        SET place = CASE WHEN b.kind = 'W' THEN 3 WHEN b.next_due_at <= _now THEN 0 ELSE 1 END, due_at = b.next_due_at,
            leased_until = NULL, worker = NULL, started_at = NULL, updated_at = _now,
            attempt = m.attempt + CASE b.kind WHEN 'R' THEN 1 ELSE 0 END,
            deaths = m.deaths + CASE WHEN b.kind IN ('F', 'B') THEN 1 ELSE 0 END,
            error = CASE b.kind WHEN 'R' THEN b.new_error ELSE m.error END,
            progress = b.progress, meta = b.meta, awaited_event = b.event,
            wait_number = CASE b.kind WHEN 'W' THEN nextval('task_seq') END, missing = CASE b.kind WHEN 'W' THEN 0 END,
            on_failure = CASE b.kind WHEN 'W' THEN 'cancel' END, ending = CASE b.kind WHEN 'W' THEN 'null' END
        FROM batch b WHERE m.ctid = ANY (rows) AND m.ctid = b.row AND NOT b.is_ended
    ), lettered AS (
        INSERT INTO dead (ns, id, seq, dead_at, visibility_timeout, attempt, name, queue, reason, error, meta, body)
        SELECT _ns, id, nextval('dead_seq_no'), _now, visibility_timeout, attempt, name, queue, reason, new_error,
               letter, body
        FROM batch WHERE kind = 'X' ORDER BY place
    ), logged AS (
        INSERT INTO events (ns, at, enqueued_at, started_at, attempt, kind, task_id, name, queue, worker, data)
        SELECT _ns, CASE step WHEN 0 THEN started_at ELSE _now END, enqueued_at, started_at, attempt,
               CASE WHEN step = 0 THEN 'started' WHEN step = 2 THEN 'dead-lettered'
                    ELSE CASE kind WHEN 'D' THEN 'succeeded' WHEN 'R' THEN 'retried' WHEN 'X' THEN 'failed'
                                   WHEN 'T' THEN 'throttled' WHEN 'B' THEN 'throttled' WHEN 'C' THEN 'revoked' WHEN 'P' THEN 'revoked'
                                   WHEN 'W' THEN 'blocked' ELSE 'requeued' END END,
               id, name, queue, _worker, event_data(body, CASE step WHEN 0 THEN NULL ELSE data END)
        FROM batch CROSS JOIN generate_series(0, 2) AS step
        WHERE step = 1 OR (step = 0 AND is_new) OR (step = 2 AND kind = 'X')
        ORDER BY place, step
    )
    SELECT array_agg(place), array_agg(id) FILTER (WHERE is_ended), array_agg(id) FILTER (WHERE kind IN ('C', 'P')),
           array_agg(id) FILTER (WHERE is_ended AND dependents IS NOT NULL),
           array_agg(unique_key) FILTER (WHERE is_ended AND unique_key IS NOT NULL),
           array_agg(ROW(_ns, id, seq, fence, enqueued_at, _now, started_at, _now, heartbeat_at,
                         CASE kind WHEN 'X' THEN NULL ELSE _now END, attempt, priority,
                         CASE kind WHEN 'D' THEN 'succeeded' WHEN 'X' THEN 'failed' ELSE 'cancelled' END,
                         queue, name, _worker, payload, new_error, progress, meta,
                         dependents, NULL, CASE kind WHEN 'P' THEN true END)::records) FILTER (WHERE is_ended)
    INTO settled, ended_ids, cancelled_ids, awaited, keys, ended FROM batch;
    PERFORM file_records(ended);
    IF keys IS NOT NULL THEN
        PERFORM release_keys(_ns, keys, ended_ids, coalesce(cancelled_ids, '{}'));
    END IF;
    held_places := CASE WHEN cardinality(settled) = cardinality(ids) THEN NULL ELSE coalesce(settled, '{}') END;
    IF awaited IS NOT NULL AND NOT _defers THEN
        _told := carry_on(_ns, awaited);
        told_queues := array_to_string(_told.told_queues, E'\x01');
        told_ended := array_to_string(_told.told_ended, E'\x01');
    END IF;
END $$
