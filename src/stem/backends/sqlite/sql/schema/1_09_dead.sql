-- Dead letters in the order of their deaths; the envelope stays with the task. `seq` holds the namespace in its upper bits.
CREATE TABLE stem_dead (
    seq INTEGER PRIMARY KEY,
    task INTEGER NOT NULL UNIQUE,
    queue TEXT NOT NULL,
    name TEXT NOT NULL,
    reason TEXT NOT NULL,
    meta BLOB,
    dead_at REAL NOT NULL
)
