-- Durable steps of tasks and events sent to them, in the order in which they came.
CREATE TABLE stem_steps (
    number INTEGER PRIMARY KEY,
    task INTEGER NOT NULL,
    name TEXT NOT NULL,
    payload BLOB NOT NULL,
    at REAL NOT NULL,
    UNIQUE (task, name)
)
