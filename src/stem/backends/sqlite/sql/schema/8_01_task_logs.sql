-- What tasks print: a line or log record each, as JSON. Positions only grow.
CREATE TABLE stem_task_logs (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    ns       INTEGER NOT NULL,
    task_id  TEXT NOT NULL,
    at       REAL NOT NULL,
    body     TEXT NOT NULL
)
