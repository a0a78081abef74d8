-- The log is written with the change it tells of.
INSERT INTO stem_events (seq, kind, at, task_id, name, queue, attempt, worker, enqueued_at, started_at, data)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
