-- Tasks that failed and had more dependents than one call cancels; reclaim goes on with them.
CREATE TABLE IF NOT EXISTS cascades (
    ns text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    PRIMARY KEY (ns, id)
)
