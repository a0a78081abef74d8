-- What tasks print: a line or log record each, as JSON. Positions only grow.
CREATE TABLE IF NOT EXISTS task_logs (
    ns       text COLLATE "C" NOT NULL,
    id       text COLLATE "C" NOT NULL,
    position bigint GENERATED ALWAYS AS IDENTITY,
    at       float8 NOT NULL,
    body     text NOT NULL,
    PRIMARY KEY (id, ns, position)
);
CREATE INDEX IF NOT EXISTS task_logs_by_age ON task_logs (ns, at)
