-- The last heartbeat of each worker, as JSON.
CREATE TABLE heartbeats (
    ns         text COLLATE "C" NOT NULL,
    worker_id  text COLLATE "C" NOT NULL,
    at         float8 NOT NULL,
    kept_until float8 NOT NULL,
    body       text NOT NULL,
    PRIMARY KEY (ns, worker_id)
) WITH (fillfactor = 50)
