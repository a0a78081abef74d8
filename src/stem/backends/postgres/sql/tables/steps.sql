-- Durable steps of tasks, and events sent to them. The number keeps their order.
CREATE TABLE IF NOT EXISTS steps (
    ns      text COLLATE "C" NOT NULL,
    id      text COLLATE "C" NOT NULL,
    name    text COLLATE "C" NOT NULL,
    number  bigint GENERATED ALWAYS AS IDENTITY,
    at      float8 NOT NULL,
    payload text NOT NULL,
    PRIMARY KEY (id, ns, name)
)
