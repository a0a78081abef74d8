-- Store a dead letter with its reason.
INSERT INTO stem_dead (seq, task, queue, name, reason, meta, dead_at) VALUES (?, ?, ?, ?, ?, ?, ?)
