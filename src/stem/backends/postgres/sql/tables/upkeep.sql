-- When each namespace was last pruned, so that only one of many processes prunes.
CREATE TABLE upkeep (
    ns        text COLLATE "C" PRIMARY KEY,
    pruned_at float8 NOT NULL
)
