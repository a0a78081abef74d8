-- What was counted of each minute (its beginning in microseconds), by a digest of task, queue, worker and tenant.
CREATE TABLE stem_rollups (
    ns INTEGER NOT NULL,
    minute INTEGER NOT NULL,
    digest TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (ns, minute, digest)
) WITHOUT ROWID
