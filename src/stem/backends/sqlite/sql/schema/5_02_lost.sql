-- Leases of running tasks that were reclaimed, for an hour: whether their holders have died, or only were away, is not known.
CREATE TABLE stem_lost (
    ns INTEGER NOT NULL,
    id TEXT NOT NULL,
    fence INTEGER NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (ns, id, fence)
) WITHOUT ROWID
