-- The event log. Readers go by (txid, n) and stop before the oldest open transaction, so that no event that commits late is
-- skipped. n orders the events of one transaction; sessions draw it in blocks.
-- A transaction gets its number with its first lock: a report that locks a task before a settle that began earlier is read after
-- the task's ending.
CREATE SEQUENCE event_n CACHE 100;
CREATE TABLE events (
    ns          text COLLATE "C" NOT NULL,
    txid        xid8 NOT NULL DEFAULT pg_current_xact_id(),
    n           bigint NOT NULL DEFAULT nextval('event_n'),
    at          float8 NOT NULL,
    enqueued_at float8 NOT NULL,
    started_at  float8,
    attempt     integer NOT NULL,
    kind        text COLLATE "C" NOT NULL,
    task_id     text COLLATE "C" NOT NULL,
    name        text COLLATE "C" NOT NULL,
    queue       text COLLATE "C" NOT NULL,
    worker      text,
    data        text,
    PRIMARY KEY (ns, txid, n)
)
