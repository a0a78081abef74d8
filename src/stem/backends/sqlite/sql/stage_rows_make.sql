-- In the file of one job: its pushes, in the order of staging. No index: they are read once, all of them.
CREATE TABLE IF NOT EXISTS rows (
    number INTEGER PRIMARY KEY,
    part INTEGER NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    delay_seconds REAL,
    due_at REAL,
    lifetime_seconds REAL,
    expires_at REAL,
    visibility_timeout REAL,
    meta TEXT,
    body TEXT NOT NULL
)
