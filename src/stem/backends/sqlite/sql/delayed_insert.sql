-- Add a task to its queue, delayed until it is due.
INSERT INTO stem_delayed (ns, queue, due_at, seq) VALUES (?, ?, ?, ?)
