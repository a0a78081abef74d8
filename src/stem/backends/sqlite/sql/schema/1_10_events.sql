-- The log, some events a row, because a row an event would be the dearest part of every batch. `seq` is the offset of the
-- row's last event with the namespace in its upper bits. No gaps: the log is only pruned at its old end.
CREATE TABLE stem_events (
    seq INTEGER PRIMARY KEY,
    lines BLOB NOT NULL
)
