-- Schedules. `due_at` is when the next run is enqueued; NULL: none is left.
CREATE TABLE stem_schedules (
    ns INTEGER NOT NULL,
    id TEXT NOT NULL,
    revision INTEGER NOT NULL,
    due_at REAL,
    entry BLOB NOT NULL,
    state BLOB NOT NULL,
    PRIMARY KEY (ns, id)
) WITHOUT ROWID
