-- In the file of one job: a table of the ids of pushes of one kind, joined by commas, so that the log need not read each push.
CREATE TABLE IF NOT EXISTS runs (
    number INTEGER PRIMARY KEY,
    kind INTEGER NOT NULL,
    rows INTEGER NOT NULL,
    ids TEXT NOT NULL
)
