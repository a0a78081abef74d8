-- Which event makes a delayed task due, and where the task is delayed. A row counts only while the task is there.
CREATE TABLE stem_event_waits (
    task INTEGER PRIMARY KEY,
    event TEXT NOT NULL,
    due_at REAL NOT NULL
)
