-- Which schema this is, and that it is ours: one row.
CREATE TABLE version (
    version integer NOT NULL,
    made_at timestamptz NOT NULL DEFAULT clock_timestamp()
)
