-- Who waits, or waited, for whom. `pending` is the round of the wait in which the prerequisite still counts; 0: it does not.
CREATE TABLE stem_edges (
    prerequisite INTEGER NOT NULL,
    dependent INTEGER NOT NULL,
    pending INTEGER NOT NULL,
    PRIMARY KEY (prerequisite, dependent)
) WITHOUT ROWID
