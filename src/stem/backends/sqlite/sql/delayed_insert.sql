-- Into the queue, invisible until due.
INSERT INTO stem_delayed (ns, queue, due_at, seq) VALUES (?, ?, ?, ?)
