-- In the file of one job: a table of its parts, and how many pushes each has.
CREATE TABLE IF NOT EXISTS parts (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    rows INTEGER NOT NULL
)
