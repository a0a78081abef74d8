-- Workers that wait, and how many tasks each may be handed as they are pushed; see verbs/push_one.sql and verbs/stand.sql.
-- The connection over which it listens holds an advisory lock on the number: a seat whose number anybody can lock is nobody's.
-- given: the tasks that it was handed since it last said what it has heard of. Nothing here need survive a crash.
CREATE UNLOGGED TABLE IF NOT EXISTS seats (
    ns      text COLLATE "C" NOT NULL,
    number  bigint NOT NULL,
    until   float8 NOT NULL,
    lease   float8 NOT NULL,
    free    integer NOT NULL,
    queues  text[] NOT NULL,
    given   text[] NOT NULL,
    PRIMARY KEY (ns, number)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0)
