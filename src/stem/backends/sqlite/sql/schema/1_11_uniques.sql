-- Held unique keys; `held_until` NULL: until the holder ends.
CREATE TABLE stem_uniques (
    ns INTEGER NOT NULL,
    key TEXT NOT NULL,
    holder TEXT NOT NULL,
    held_until REAL,
    PRIMARY KEY (ns, key)
) WITHOUT ROWID
