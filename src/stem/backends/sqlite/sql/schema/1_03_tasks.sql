-- One row a task: its record, and until it ends or its letter is dropped also the envelope, last so that reads may stop short.
-- `seq` holds the namespace in its upper bits. `ended_at` is the end from which retention counts; a dead letter keeps it NULL.
CREATE TABLE stem_tasks (
    seq INTEGER PRIMARY KEY,
    ns INTEGER NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    state TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    deaths INTEGER NOT NULL,
    enqueued_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    started_at REAL,
    finished_at REAL,
    heartbeat_at REAL,
    ended_at REAL,
    expires_at REAL,
    visibility_timeout REAL,
    worker TEXT,
    unique_key TEXT,
    error BLOB,
    meta BLOB,
    payload BLOB,
    body BLOB
)
