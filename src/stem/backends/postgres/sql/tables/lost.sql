-- Leases of running tasks that were reclaimed within the last hour. It is not known whether their holders have died or were only
-- away.
CREATE TABLE IF NOT EXISTS lost (
    ns    text COLLATE "C" NOT NULL,
    id    text COLLATE "C" NOT NULL,
    fence bigint NOT NULL,
    at    float8 NOT NULL,
    PRIMARY KEY (ns, id, fence)
)
