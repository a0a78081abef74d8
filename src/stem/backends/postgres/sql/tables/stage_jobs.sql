-- Jobs that stage pushes, and those whose pushes have become tasks. Each has its own table while it is staged; see
-- functions/stage_open.sql.
CREATE TABLE IF NOT EXISTS stage_jobs (
    ns          text COLLATE "C" NOT NULL,
    job         text COLLATE "C" NOT NULL,
    staged_at   float8 NOT NULL,
    promoted_at float8,
    created     bigint NOT NULL DEFAULT 0,
    known       bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (ns, job)
)
