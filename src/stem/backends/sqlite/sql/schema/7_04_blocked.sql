-- Tasks that wait for others: how many are missing, and how the task goes on. `is_waiting` 0: it was cancelled for a failed
-- prerequisite and can be revived. `round` is the one of its waits, because a task that waited may wait again.
CREATE TABLE stem_blocked (
    seq INTEGER PRIMARY KEY,
    ns INTEGER NOT NULL,
    queue TEXT NOT NULL,
    round INTEGER NOT NULL,
    missing INTEGER NOT NULL,
    is_waiting INTEGER NOT NULL,
    on_failure TEXT NOT NULL,
    delay_seconds REAL,
    due_at REAL NOT NULL
)
