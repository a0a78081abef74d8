-- Jobs whose staged pushes have become tasks, so that none does so twice.
CREATE TABLE stem_stage_jobs (
    ns INTEGER NOT NULL,
    job TEXT NOT NULL,
    created INTEGER NOT NULL,
    known INTEGER NOT NULL,
    promoted_at REAL NOT NULL,
    PRIMARY KEY (ns, job)
) WITHOUT ROWID
