-- What is claimed, and by which fence; only as long as fleets run tasks, so it needs no index.
CREATE TABLE stem_leases (
    seq INTEGER PRIMARY KEY,
    fence INTEGER NOT NULL,
    leased_until REAL NOT NULL
)
