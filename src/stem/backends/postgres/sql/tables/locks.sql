-- Named locks with an expiry. Fences come from one sequence, so they grow even after a row was pruned.
CREATE TABLE locks (
    ns         text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    owner      text NOT NULL,
    fence      bigint NOT NULL,
    held_until float8 NOT NULL,
    PRIMARY KEY (ns, name)
);
CREATE SEQUENCE lock_fence
