-- Unique keys and their holders. held_until is null for a key that is held until the holder ends.
-- since: when the series of pushes began that supersede one another.
CREATE TABLE uniques (
    ns         text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    id         text COLLATE "C" NOT NULL,
    held_until float8,
    since      float8,
    PRIMARY KEY (ns, key)
);
CREATE INDEX uniques_until ON uniques (ns, held_until) WHERE held_until IS NOT NULL
