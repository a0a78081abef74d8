-- Store one line of a task.
INSERT INTO stem_task_logs (ns, task_id, at, body) VALUES (?, ?, ?, ?)
