-- Keep the record of a task that another store runs. If this store has its dead letter, retention does not count.
INSERT INTO stem_tasks (
    seq, ns, id, name, queue, priority, state, attempt, fence, deaths, enqueued_at, updated_at,
    started_at, finished_at, heartbeat_at, ended_at, worker, error, meta, payload
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (seq) DO UPDATE SET
    name = excluded.name, queue = excluded.queue, priority = excluded.priority, state = excluded.state,
    attempt = excluded.attempt, fence = excluded.fence, enqueued_at = excluded.enqueued_at,
    updated_at = excluded.updated_at, started_at = excluded.started_at, finished_at = excluded.finished_at,
    heartbeat_at = excluded.heartbeat_at, worker = excluded.worker,
    ended_at = iif(EXISTS (SELECT 1 FROM stem_dead WHERE task = excluded.seq), NULL, excluded.ended_at),
    error = excluded.error, meta = excluded.meta, payload = excluded.payload
