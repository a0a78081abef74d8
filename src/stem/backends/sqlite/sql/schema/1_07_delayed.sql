-- What waits for its time, by when it is due.
CREATE TABLE stem_delayed (
    ns INTEGER NOT NULL,
    queue TEXT NOT NULL,
    due_at REAL NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (ns, queue, due_at, seq)
) WITHOUT ROWID
