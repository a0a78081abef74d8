-- Read those of these tasks that are leased, with the fence of the holder.
SELECT
    t.seq, t.id, t.name, t.queue, t.priority, t.state, t.attempt, l.fence, t.deaths, t.enqueued_at, t.updated_at,
    t.started_at, t.finished_at, t.heartbeat_at, t.expires_at, t.visibility_timeout, t.worker, t.unique_key,
    t.error, t.meta, t.awaited, t.joins
FROM json_each(?2) AS wanted
CROSS JOIN stem_tasks AS t ON t.ns = ?1 AND t.id = wanted.value
CROSS JOIN stem_leases AS l ON l.seq = t.seq
