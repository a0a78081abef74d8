-- Into the queue, at the place that priority and age give.
INSERT INTO stem_ready (ns, queue, rank, seq, due_at) VALUES (?, ?, ?, ?, ?)
