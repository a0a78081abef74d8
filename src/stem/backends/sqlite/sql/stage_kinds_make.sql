-- In the file of one job: a table of what pushes of a part have in common. Most parts have one kind, or a few.
-- between_id and behind are the rest of bodies that differ only in id and arguments; NULL if bodies are stored whole.
CREATE TABLE IF NOT EXISTS kinds (
    number INTEGER PRIMARY KEY,
    part INTEGER NOT NULL,
    name TEXT NOT NULL,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    delay_seconds REAL,
    due_at REAL,
    lifetime_seconds REAL,
    expires_at REAL,
    visibility_timeout REAL,
    meta TEXT,
    tenant TEXT,
    between_id TEXT,
    behind TEXT
)
