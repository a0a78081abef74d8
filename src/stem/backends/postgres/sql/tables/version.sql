-- The version of the schema, which also marks the schema as Stem's: one row.
CREATE TABLE version (
    version integer NOT NULL,
    made_at timestamptz NOT NULL DEFAULT clock_timestamp()
)
