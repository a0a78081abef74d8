-- Rate limits: what was left in each bucket that is not full, and for how long from then on it was promised.
CREATE TABLE stem_buckets (
    ns INTEGER NOT NULL,
    key TEXT NOT NULL,
    tokens REAL NOT NULL,
    promised_seconds REAL NOT NULL,
    pace_seconds REAL NOT NULL,
    updated_at REAL NOT NULL,
    expires_at REAL NOT NULL,
    PRIMARY KEY (ns, key)
) WITHOUT ROWID
