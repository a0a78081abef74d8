-- Results.get: read records by id, of living and of ended tasks, in one snapshot.
SELECT id, name, queue,
       CASE WHEN started_at IS NOT NULL THEN 'running' WHEN attempt = 0 THEN 'queued' ELSE 'retried' END AS state,
       attempt, fence, priority, NULL AS payload, error, meta, progress, worker,
       enqueued_at, started_at, NULL::float8 AS finished_at, heartbeat_at, updated_at, seq
FROM {s}.messages WHERE ns = %(ns)s AND id = ANY (%(ids)s)
UNION ALL
SELECT id, name, queue, state, attempt, fence, priority, payload, error, meta, progress, worker,
       enqueued_at, started_at, finished_at, heartbeat_at, updated_at, seq
FROM {s}.records WHERE ns = %(ns)s AND id = ANY (%(ids)s)
  AND (kept_from IS NULL OR least(kept_from, finished_at) > (SELECT {s}.now_seconds()) - %(ttl)s)
