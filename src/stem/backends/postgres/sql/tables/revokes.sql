-- Revokes. The highest version is a row that each writer locks until it commits, so versions become visible in order and a
-- reader that follows them misses none.
CREATE TABLE revoke_versions (
    ns      text COLLATE "C" PRIMARY KEY,
    version bigint NOT NULL
);
CREATE TABLE revokes (
    ns         text COLLATE "C" NOT NULL,
    task_id    text COLLATE "C" NOT NULL,
    version    bigint NOT NULL,
    created_at float8 NOT NULL,
    expires_at float8,
    body       text NOT NULL,
    PRIMARY KEY (ns, task_id)
);
CREATE INDEX revokes_version ON revokes (ns, version);
CREATE INDEX revokes_expiry ON revokes (ns, expires_at) WHERE expires_at IS NOT NULL
