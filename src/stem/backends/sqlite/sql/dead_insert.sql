-- A task that was given up, with the reason.
INSERT INTO stem_dead (seq, task, queue, name, reason, meta, dead_at) VALUES (?, ?, ?, ?, ?, ?, ?)
