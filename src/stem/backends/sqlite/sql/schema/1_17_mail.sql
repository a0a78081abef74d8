-- Boxes and channels; `kind` is 'box' or 'channel'.
CREATE TABLE stem_mail (
    ns INTEGER NOT NULL,
    kind TEXT NOT NULL,
    topic TEXT NOT NULL,
    number INTEGER NOT NULL,
    expires_at REAL NOT NULL,
    message BLOB NOT NULL,
    PRIMARY KEY (ns, kind, topic, number)
) WITHOUT ROWID
