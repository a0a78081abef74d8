-- When each namespace was last pruned, so that of many processes one does it.
CREATE TABLE upkeep (
    ns        text COLLATE "C" PRIMARY KEY,
    pruned_at float8 NOT NULL
)
