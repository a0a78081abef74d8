-- Waiting workers, and how many tasks each may be handed as they are pushed; see functions/handoff_register.sql and push_one.sql.
-- The worker's LISTEN connection holds an advisory lock on the number: if anybody can lock a row's number, its worker is gone.
-- unacknowledged: the tasks handed over since the worker's last acknowledgement. Nothing here need survive a crash.
CREATE UNLOGGED TABLE IF NOT EXISTS handoffs (
    ns             text COLLATE "C" NOT NULL,
    number         bigint NOT NULL,
    expires_at     float8 NOT NULL,
    lease_seconds  float8 NOT NULL,
    free_slots     integer NOT NULL,
    queues         text[] NOT NULL,
    unacknowledged text[] NOT NULL,
    PRIMARY KEY (ns, number)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0)
