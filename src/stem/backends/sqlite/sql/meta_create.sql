-- Says that the stem_ tables of this file are ours, and which schema they have.
CREATE TABLE IF NOT EXISTS stem_meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID
