-- What may be claimed now, in claim order; `rank` is 9 less the priority. Its size is what waits, whatever has finished.
CREATE TABLE stem_ready (
    ns INTEGER NOT NULL,
    queue TEXT NOT NULL,
    rank INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    due_at REAL NOT NULL,
    PRIMARY KEY (ns, queue, rank, seq)
) WITHOUT ROWID
