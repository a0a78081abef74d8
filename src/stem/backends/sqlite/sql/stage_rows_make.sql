-- In the file of one job: its pushes, in the order of staging. No index: they are read once, all of them.
-- text: the body, or only the arguments in it.
CREATE TABLE IF NOT EXISTS rows (
    number INTEGER PRIMARY KEY,
    kind INTEGER NOT NULL,
    id TEXT NOT NULL,
    text TEXT NOT NULL
)
