-- Add a task to its queue, at the place that its priority and age give.
INSERT INTO stem_ready (ns, queue, rank, seq, due_at) VALUES (?, ?, ?, ?, ?)
