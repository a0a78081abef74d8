-- Every task that waits or runs; the ending moves it into records. Small and hot.
-- place: 0 ready, 1 delayed, 2 leased, 3 blocked. A running task is a leased one with started_at.
-- meta holds JSON objects, one per line; a later line overrides an earlier one, key by key.
-- dependents: the tasks that wait for it, or waited; each is named by its id and the number of its wait, with a space between. A
-- number that is not the wait_number of that task, such as 0, says that this one does not count for it any more.
-- missing, wait_number, on_failure, ending and release_delay belong to blocked tasks. ending is the payload of a task that ends
-- when it is released, instead of being run.
-- awaited_event: the event that makes a delayed task due.
-- Each look-up can be served by one index only, so that a plan made while the table was empty is right when it is full:
-- that is why id leads the key, and why listings, which alone use the index by seq, must contain `seq > 0`.
CREATE TABLE messages (
    ns           text COLLATE "C" NOT NULL,
    id           text COLLATE "C" NOT NULL,
    seq          bigint NOT NULL,
    fence        bigint NOT NULL DEFAULT 0,
    due_at       float8 NOT NULL,
    enqueued_at  float8 NOT NULL,
    updated_at   float8 NOT NULL,
    leased_until float8,
    started_at   float8,
    heartbeat_at float8,
    expires_at   float8,
    visibility_timeout float8,
    attempt      integer NOT NULL DEFAULT 0,
    deaths       integer NOT NULL DEFAULT 0,
    priority     smallint NOT NULL,
    place        smallint NOT NULL,
    queue        text COLLATE "C" NOT NULL,
    name         text COLLATE "C" NOT NULL,
    worker       text,
    unique_key   text COLLATE "C",
    error        text,
    progress     text,
    meta         text NOT NULL,
    body         text NOT NULL,
    dependents   text[],
    missing      integer,
    wait_number  bigint,
    on_failure   text COLLATE "C",
    ending       text,
    release_delay float8,
    awaited_event text,
    PRIMARY KEY (id, ns)
) WITH (
    fillfactor = 90,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 100000
);
CREATE INDEX messages_ready ON messages (ns, queue, priority DESC, seq) WHERE place = 0;
CREATE INDEX messages_delayed ON messages (ns, queue, due_at, seq) WHERE place = 1;
CREATE INDEX messages_leased ON messages (ns, seq) WHERE place = 2;
CREATE INDEX messages_blocked ON messages (ns, queue, seq) WHERE place = 3;
CREATE INDEX messages_seq ON messages (ns, seq) WHERE seq > 0;
CREATE SEQUENCE task_seq
