-- Read the records of these ids; the fence of a lease is in its record.
SELECT
    t.seq, t.id, t.name, t.queue, t.state, t.attempt, coalesce(l.fence, t.fence), t.priority, t.payload, t.error, t.meta,
    t.worker, t.enqueued_at, t.started_at, t.finished_at, t.heartbeat_at, t.updated_at
FROM json_each(?2) AS wanted
CROSS JOIN stem_tasks AS t ON t.ns = ?1 AND t.id = wanted.value
LEFT JOIN stem_leases AS l ON l.seq = t.seq
WHERE t.ended_at IS NULL OR iif(t.awaited, t.finished_at, t.ended_at) > ?3
