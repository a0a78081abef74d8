-- Jobs that stage pushes, and those whose pushes have become tasks. Each has a table of its own while it is staged, which is
-- not logged: a crash of the server empties it, and ends the job.
CREATE TABLE IF NOT EXISTS stage_jobs (
    ns          text COLLATE "C" NOT NULL,
    job         text COLLATE "C" NOT NULL,
    staged_at   float8 NOT NULL,
    promoted_at float8,
    created     bigint NOT NULL DEFAULT 0,
    known       bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (ns, job)
);
-- How much each part has, and between which ids it lies.
CREATE UNLOGGED TABLE IF NOT EXISTS stage_parts (
    ns   text COLLATE "C" NOT NULL,
    job  text COLLATE "C" NOT NULL,
    part text COLLATE "C" NOT NULL,
    rows bigint NOT NULL,
    low  text COLLATE "C" NOT NULL,
    high text COLLATE "C" NOT NULL,
    PRIMARY KEY (ns, job, part)
);
ALTER TABLE stage_parts ADD COLUMN IF NOT EXISTS slotted bigint NOT NULL DEFAULT 0,
    ADD COLUMN IF NOT EXISTS is_rising boolean NOT NULL DEFAULT true
