-- When reclaim was last called, and since when it has been called without a gap.
CREATE TABLE stem_watch (
    ns INTEGER PRIMARY KEY,
    seen_at REAL NOT NULL,
    since REAL NOT NULL
)
