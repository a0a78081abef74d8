-- A second mark for a task replaces the first.
INSERT OR REPLACE INTO stem_revokes (ns, task_id, version, expires_at, record) VALUES (?, ?, ?, ?, ?)
