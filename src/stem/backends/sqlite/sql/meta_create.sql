-- Create the table that marks the stem_ tables of this file as Stem's, and tells their schema.
CREATE TABLE IF NOT EXISTS stem_meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID
