-- In the file of one job: its pushes, in the order of staging. No index: they are read once, all of them.
CREATE TABLE IF NOT EXISTS rows (
    number INTEGER PRIMARY KEY,
    kind INTEGER NOT NULL,
    id TEXT NOT NULL,
    body TEXT NOT NULL
)
