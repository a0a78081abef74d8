-- Results.wait: list which of these ids have ended.
SELECT id, name, queue, state, attempt, fence, priority, payload, error, meta, progress, worker,
       enqueued_at, started_at, finished_at, heartbeat_at, updated_at, seq
FROM {s}.records WHERE ns = %(ns)s AND id = ANY (%(ids)s) AND state IN ('succeeded', 'failed', 'cancelled')
  AND (kept_from IS NULL OR least(kept_from, finished_at) > (SELECT {s}.now_seconds()) - %(ttl)s)
