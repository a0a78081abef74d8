-- Let a task wait for others.
INSERT INTO stem_blocked (seq, ns, queue, round, missing, is_waiting, on_failure, delay_seconds, due_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
