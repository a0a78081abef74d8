-- In the file of one job: a table of its pushes, in the order of staging, without an index, because all are read once.
-- text is the body, or only its arguments.
CREATE TABLE IF NOT EXISTS rows (
    number INTEGER PRIMARY KEY,
    kind INTEGER NOT NULL,
    id TEXT NOT NULL,
    text TEXT NOT NULL
)
