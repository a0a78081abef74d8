-- The figures of each minute (its beginning in microseconds), by a digest of task, queue, worker and tenant; as JSON.
CREATE TABLE IF NOT EXISTS rollups (
    ns     text COLLATE "C" NOT NULL,
    minute bigint NOT NULL,
    digest text COLLATE "C" NOT NULL,
    body   text NOT NULL,
    PRIMARY KEY (ns, minute, digest)
) WITH (fillfactor = 50)
