-- Broker.settle for a batch of successes, the most frequent one: payload set, error cleared, message deleted, events started
-- (if it was not) and succeeded. Returns what settle_mixed does.
CREATE OR REPLACE FUNCTION settle_successes(
    _ns text, _worker text, _ids text, _fences text, _runs text, _payloads text, _metas text, _progress text, _defers boolean,
    OUT held_places integer[], OUT told_queues text, OUT told_ended text
) LANGUAGE plpgsql AS $$
DECLARE
    _now float8 := now_seconds();
    ids text[] := cells(_ids);
    fences text[] := cells(_fences);
    rows tid[];
    settled integer[];
    keys text[];
    awaited text[];
    _told record;
BEGIN
    -- In the block: lock and delete are of one subtransaction.
    rows := held(_ns, ids, fences);
    WITH gone AS (
        DELETE FROM messages m WHERE m.ctid = ANY (rows)
        RETURNING m.id, m.seq, m.fence, m.enqueued_at, m.started_at, m.heartbeat_at, m.attempt, m.priority, m.queue, m.name,
                  m.unique_key, m.progress, m.meta, m.body, m.dependents
    ), ended AS MATERIALIZED (
        SELECT u.place::integer AS place, u.payload, g.id, g.seq, g.fence, g.enqueued_at, g.heartbeat_at, g.attempt,
               g.priority, g.queue, g.name, g.unique_key, g.dependents, event_data(g.body) AS data,
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
                             attempt, priority, state, queue, name, worker, payload, progress, meta, dependents)
        SELECT _ns, id, seq, fence, enqueued_at, _now, started_at, _now, heartbeat_at, _now, attempt, priority,
               'succeeded', queue, name, _worker, payload, progress, meta, dependents
        FROM ended
    ), told AS (
        INSERT INTO events (ns, at, enqueued_at, started_at, attempt, kind, task_id, name, queue, worker, data)
        SELECT _ns, CASE step WHEN 0 THEN started_at ELSE _now END, enqueued_at, started_at, attempt,
               CASE step WHEN 0 THEN 'started' ELSE 'succeeded' END, id, name, queue, _worker, data
        FROM ended CROSS JOIN generate_series(0, 1) AS step
        WHERE step = 1 OR is_new
        ORDER BY place, step
    )
    SELECT array_agg(place), array_agg(unique_key) FILTER (WHERE unique_key IS NOT NULL),
           array_agg(id) FILTER (WHERE dependents IS NOT NULL)
    INTO settled, keys, awaited FROM ended;
    IF keys IS NOT NULL THEN
        PERFORM release_keys(_ns, keys, ids);
    END IF;
    held_places := CASE WHEN cardinality(settled) = cardinality(ids) THEN NULL ELSE coalesce(settled, '{}') END;
    IF awaited IS NOT NULL AND NOT _defers THEN
        _told := carry_on(_ns, awaited);
        told_queues := array_to_string(_told.told_queues, E'\x01');
        told_ended := array_to_string(_told.told_ended, E'\x01');
    END IF;
EXCEPTION WHEN unique_violation THEN
    -- A record was saved while its task was being pushed. The way that replaces it costs more, so it is not the first.
    _told := settle_mixed(_ns, _worker, _ids, _fences, _runs, _payloads, _metas, _progress,
                          array_to_string(array_fill('D'::text, ARRAY[cardinality(ids)]), E'\x01'), '', '', '', '', '', '', _defers);
    held_places := _told.held_places;
    told_queues := _told.told_queues;
    told_ended := _told.told_ended;
END $$
