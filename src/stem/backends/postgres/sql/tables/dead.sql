-- Dead letters: what a replay needs beyond the task's record, which stays as long as the letter does.
CREATE TABLE dead (
    ns       text COLLATE "C" NOT NULL,
    id       text COLLATE "C" NOT NULL,
    seq      bigint NOT NULL,
    dead_at  float8 NOT NULL,
    visibility_timeout float8,
    attempt  integer NOT NULL,
    name     text COLLATE "C" NOT NULL,
    queue    text COLLATE "C" NOT NULL,
    reason   text COLLATE "C" NOT NULL,
    error    text NOT NULL,
    meta     text NOT NULL,
    body     text NOT NULL,
    PRIMARY KEY (ns, id)
);
CREATE INDEX dead_seq ON dead (ns, seq);
CREATE SEQUENCE dead_seq_no
