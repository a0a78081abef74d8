-- Leases of running tasks that were reclaimed, for an hour: whether their holders have died, or only were away, is not known.
CREATE TABLE IF NOT EXISTS lost (
    ns    text COLLATE "C" NOT NULL,
    id    text COLLATE "C" NOT NULL,
    fence bigint NOT NULL,
    at    float8 NOT NULL,
    PRIMARY KEY (ns, id, fence)
)
