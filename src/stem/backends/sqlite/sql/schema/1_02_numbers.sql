-- Series that only grow, handed out inside the transaction that uses them: seq, fence, offset, revoke, lock, mail, dead.
CREATE TABLE stem_numbers (
    ns INTEGER NOT NULL,
    name TEXT NOT NULL,
    value INTEGER NOT NULL,
    PRIMARY KEY (ns, name)
) WITHOUT ROWID
