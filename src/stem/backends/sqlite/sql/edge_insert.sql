-- Remember that a task waits for another.
INSERT OR REPLACE INTO stem_edges (prerequisite, dependent, pending) VALUES (?, ?, ?)
