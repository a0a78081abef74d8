-- Who holds one of a limited number of places.
CREATE TABLE stem_places (
    ns INTEGER NOT NULL,
    key TEXT NOT NULL,
    holder TEXT NOT NULL,
    expires_at REAL NOT NULL,
    PRIMARY KEY (ns, key, holder)
) WITHOUT ROWID
