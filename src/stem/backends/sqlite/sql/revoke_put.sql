-- Store a revoke; it replaces an earlier one of the same task.
INSERT OR REPLACE INTO stem_revokes (ns, task_id, version, expires_at, record) VALUES (?, ?, ?, ?, ?)
