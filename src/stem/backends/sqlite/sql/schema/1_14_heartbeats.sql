-- The last sign of life of each worker.
CREATE TABLE stem_heartbeats (
    ns INTEGER NOT NULL,
    worker TEXT NOT NULL,
    beat BLOB NOT NULL,
    at REAL NOT NULL,
    expires_at REAL NOT NULL,
    PRIMARY KEY (ns, worker)
) WITHOUT ROWID
