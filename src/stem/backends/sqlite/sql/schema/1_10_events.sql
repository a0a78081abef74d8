-- The log. `seq` is the offset with the namespace in its upper bits; without gaps, because it is only pruned at its old end.
CREATE TABLE stem_events (
    seq INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    at REAL NOT NULL,
    task_id TEXT NOT NULL,
    name TEXT NOT NULL,
    queue TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    worker TEXT,
    enqueued_at REAL NOT NULL,
    started_at REAL,
    data BLOB
)
