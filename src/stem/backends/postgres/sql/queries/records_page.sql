-- Results.page: read records, newest enqueued first; living and ended tasks are merged by their place in line.
SELECT * FROM (
    (SELECT * FROM (
        SELECT id, name, queue,
               CASE WHEN started_at IS NOT NULL THEN 'running' WHEN attempt = 0 THEN 'queued' ELSE 'retried' END AS state,
               attempt, fence, priority, NULL AS payload, error, meta, progress, worker,
               enqueued_at, started_at, NULL::float8 AS finished_at, heartbeat_at, updated_at, seq
        FROM {s}.messages
        WHERE ns = %(ns)s AND seq > 0 AND seq < %(below)s
          AND %(state)s::text IS DISTINCT FROM 'succeeded' AND %(state)s::text IS DISTINCT FROM 'failed'
          AND %(state)s::text IS DISTINCT FROM 'cancelled'
     ) living
     WHERE (%(state)s::text IS NULL OR state = %(state)s) AND (%(queue)s::text IS NULL OR queue = %(queue)s)
       AND (%(name)s::text IS NULL OR name = %(name)s)
       AND (%(since)s::float8 IS NULL OR enqueued_at >= %(since)s)
       AND (%(until)s::float8 IS NULL OR enqueued_at < %(until)s)
       AND (%(meta)s::jsonb IS NULL OR (%(meta_text)s::text IS NULL OR strpos(meta, %(meta_text)s) > 0) AND NOT EXISTS (
           SELECT FROM jsonb_each(%(meta)s::jsonb) AS wanted (key, value) WHERE wanted.value IS DISTINCT FROM (
               SELECT line::jsonb -> wanted.key FROM regexp_split_to_table(meta, E'\n') WITH ORDINALITY AS lines (line, number)
               WHERE jsonb_exists(line::jsonb, wanted.key) ORDER BY number DESC LIMIT 1
           )
       ))
     ORDER BY seq DESC LIMIT %(limit)s)
    UNION ALL
    (SELECT id, name, queue, state, attempt, fence, priority, payload, error, meta, progress, worker,
            enqueued_at, started_at, finished_at, heartbeat_at, updated_at, seq
     FROM {s}.records
     WHERE ns = %(ns)s AND seq > 0 AND seq < %(below)s
       AND (%(state)s::text IS NULL OR state = %(state)s) AND (%(queue)s::text IS NULL OR queue = %(queue)s)
       AND (%(name)s::text IS NULL OR name = %(name)s)
       AND (%(since)s::float8 IS NULL OR enqueued_at >= %(since)s)
       AND (%(until)s::float8 IS NULL OR enqueued_at < %(until)s)
       AND (%(meta)s::jsonb IS NULL OR (%(meta_text)s::text IS NULL OR strpos(meta, %(meta_text)s) > 0) AND NOT EXISTS (
           SELECT FROM jsonb_each(%(meta)s::jsonb) AS wanted (key, value) WHERE wanted.value IS DISTINCT FROM (
               SELECT line::jsonb -> wanted.key FROM regexp_split_to_table(meta, E'\n') WITH ORDINALITY AS lines (line, number)
               WHERE jsonb_exists(line::jsonb, wanted.key) ORDER BY number DESC LIMIT 1
           )
       ))
       AND (kept_from IS NULL OR least(kept_from, finished_at) > (SELECT {s}.now_seconds()) - %(ttl)s)
     ORDER BY seq DESC LIMIT %(limit)s)
) both_kinds
ORDER BY seq DESC LIMIT %(limit)s
