-- Staging.stage and promote, first step: return the name of the job's table, which the first caller creates. The table is not
-- logged: a crash of the server empties it, and the promotion then finds that parts are missing.
CREATE OR REPLACE FUNCTION stage_open(_ns text, _job text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    _table text := stage_table(_ns, _job);
BEGIN
    PERFORM stage_touch(_ns, _job);
    IF to_regclass(_table) IS NULL THEN
        PERFORM pg_advisory_xact_lock(hashtextextended('stem.stage/' || _table, 0));
        EXECUTE format(
            'CREATE UNLOGGED TABLE IF NOT EXISTS %I (part text COLLATE "C" NOT NULL, id text COLLATE "C" NOT NULL,'
            ' name text COLLATE "C" NOT NULL, queue text COLLATE "C" NOT NULL, priority smallint NOT NULL,'
            ' delay_seconds float8, due_at float8, lifetime_seconds float8, expires_at float8,'
            ' visibility_timeout float8, meta text, body text NOT NULL)', _table);
    END IF;
    RETURN _table;
END $$
