-- Tasks that were cancelled because a prerequisite failed: what is needed, beyond their records, to release them when it has been
-- replayed and has succeeded. They go on counting: missing, wait_number and ending are as in messages.
CREATE TABLE IF NOT EXISTS revivable (
    ns            text COLLATE "C" NOT NULL,
    id            text COLLATE "C" NOT NULL,
    wait_number   bigint NOT NULL,
    due_at        float8 NOT NULL,
    release_delay float8,
    expires_at    float8,
    visibility_timeout float8,
    missing       integer NOT NULL,
    deaths        integer NOT NULL,
    ending        text,
    body          text NOT NULL,
    PRIMARY KEY (id, ns)
) WITH (fillfactor = 90)
