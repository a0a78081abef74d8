-- Named locks with their fencing number.
CREATE TABLE stem_locks (
    ns INTEGER NOT NULL,
    name TEXT NOT NULL,
    owner TEXT NOT NULL,
    fence INTEGER NOT NULL,
    held_until REAL NOT NULL,
    PRIMARY KEY (ns, name)
) WITHOUT ROWID
