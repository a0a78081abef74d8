-- Part of push_blocked: log the event enqueued for the created tasks of a batch, and after it the event blocked for those that wait
-- for others (after: ids joined by commas).
CREATE OR REPLACE FUNCTION push_events(
    _ns text, _now float8, _ids text[], _names text[], _queues text[], _bodies text[], _seqs bigint[], _made bigint[], _after text[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO events (ns, at, enqueued_at, attempt, kind, task_id, name, queue, data)
    SELECT _ns, _now, _now, 0, CASE step WHEN 0 THEN 'enqueued' ELSE 'blocked' END, u.id, u.name, u.queue,
           event_data(u.body, CASE step WHEN 1 THEN
               json_build_object('missing', cardinality(string_to_array(u.after, ',')))::text END)
    FROM unnest(_ids, _names, _queues, _bodies, _seqs, _after) AS u (id, name, queue, body, seq, after)
    JOIN unnest(_made) AS s (seq) ON s.seq = u.seq
    CROSS JOIN generate_series(0, 1) AS step
    WHERE step = 0 OR u.after IS NOT NULL
    ORDER BY u.seq, step;
END $$
