-- History.chunks: read living and ended tasks merged by their place in line, in one snapshot: a task that ends meanwhile moves
-- from one table to the other and is seen once. Moments are whole microseconds.
SELECT seq, id, name, queue, state, attempt, priority, worker, error,
       round(enqueued_at * 1000000)::bigint AS enqueued_at, round(started_at * 1000000)::bigint AS started_at,
       round(finished_at * 1000000)::bigint AS finished_at, round(heartbeat_at * 1000000)::bigint AS heartbeat_at,
       round(updated_at * 1000000)::bigint AS updated_at, meta, progress, payload
FROM (
    (SELECT * FROM (
        SELECT seq, id, name, queue,
               CASE WHEN started_at IS NOT NULL THEN 'running' WHEN attempt = 0 THEN 'queued' ELSE 'retried' END AS state,
               attempt, priority, worker, error, enqueued_at, started_at, NULL::float8 AS finished_at, heartbeat_at,
               updated_at, meta, progress, NULL AS payload
        FROM {s}.messages
        WHERE ns = %(ns)s AND seq > 0 AND seq > %(after)s AND seq <= %(upto)s
     ) living
     WHERE (%(state)s::text IS NULL OR state = %(state)s) AND (%(queue)s::text IS NULL OR queue = %(queue)s)
       AND (%(name)s::text IS NULL OR name = %(name)s)
       AND (%(since)s::float8 IS NULL OR enqueued_at >= %(since)s)
       AND (%(until)s::float8 IS NULL OR enqueued_at < %(until)s)
     ORDER BY seq LIMIT %(limit)s)
    UNION ALL
    (SELECT seq, id, name, queue, state, attempt, priority, worker, error, enqueued_at, started_at, finished_at,
            heartbeat_at, updated_at, meta, progress, payload
     FROM {s}.records
     WHERE ns = %(ns)s AND seq > 0 AND seq > %(after)s AND seq <= %(upto)s
       AND (%(state)s::text IS NULL OR state = %(state)s) AND (%(queue)s::text IS NULL OR queue = %(queue)s)
       AND (%(name)s::text IS NULL OR name = %(name)s)
       AND (%(since)s::float8 IS NULL OR enqueued_at >= %(since)s)
       AND (%(until)s::float8 IS NULL OR enqueued_at < %(until)s)
     ORDER BY seq LIMIT %(limit)s)
) both_kinds
ORDER BY seq LIMIT %(limit)s
