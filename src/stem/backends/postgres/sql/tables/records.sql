-- The records of ended tasks, and of tasks that another store runs. Mostly appended to.
-- kept_from: when the retention of the record began; null for a record that stays (not ended, or a dead letter). A record that
-- tasks which waited for it still need begins again when it is to be pruned; it can be read as long as finished_at says.
-- dependents: as in messages. is_join: it ended, or would have, when its prerequisites had. passes: cancelled, and counts as a
-- success all the same.
-- Indexes are as in messages: one for each look-up.
CREATE TABLE records (
    ns           text COLLATE "C" NOT NULL,
    id           text COLLATE "C" NOT NULL,
    seq          bigint NOT NULL,
    fence        bigint NOT NULL,
    enqueued_at  float8 NOT NULL,
    updated_at   float8 NOT NULL,
    started_at   float8,
    finished_at  float8,
    heartbeat_at float8,
    kept_from    float8,
    attempt      integer NOT NULL,
    priority     smallint NOT NULL,
    state        text COLLATE "C" NOT NULL,
    queue        text COLLATE "C" NOT NULL,
    name         text COLLATE "C" NOT NULL,
    worker       text,
    payload      text,
    error        text,
    progress     text,
    meta         text NOT NULL,
    dependents   text[],
    is_join      boolean,
    passes       boolean,
    PRIMARY KEY (id, ns)
);
CREATE INDEX records_seq ON records (ns, seq) WHERE seq > 0;
CREATE INDEX records_unusual ON records (ns, state, seq) WHERE state <> 'succeeded';
CREATE INDEX records_kept ON records (ns, kept_from) WHERE kept_from IS NOT NULL
