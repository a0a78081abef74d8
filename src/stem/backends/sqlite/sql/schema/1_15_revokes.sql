-- One mark a task, the latest.
CREATE TABLE stem_revokes (
    ns INTEGER NOT NULL,
    task_id TEXT NOT NULL,
    version INTEGER NOT NULL,
    expires_at REAL,
    record BLOB NOT NULL,
    PRIMARY KEY (ns, task_id)
) WITHOUT ROWID
