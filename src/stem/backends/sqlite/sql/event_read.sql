-- Events that follow an offset, in order.
SELECT seq, kind, at, task_id, name, queue, attempt, worker, enqueued_at, started_at, data
FROM stem_events WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?
