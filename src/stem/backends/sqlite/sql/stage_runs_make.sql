-- In the file of one job: the ids of pushes of one kind, with commas between them, so that the log need not look at each.
CREATE TABLE IF NOT EXISTS runs (
    number INTEGER PRIMARY KEY,
    kind INTEGER NOT NULL,
    rows INTEGER NOT NULL,
    ids TEXT NOT NULL
)
