-- Staging.stage, first step: a table for the job, made by the first that asks. Answers with its name.
CREATE OR REPLACE FUNCTION stage_open(_ns text, _job text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    _table text := stage_table(_ns, _job);
    _now float8 := now_seconds();
BEGIN
    IF to_regclass(_table) IS NULL THEN
        PERFORM pg_advisory_xact_lock(hashtextextended('stem.stage/' || _table, 0));
        EXECUTE format(
            'CREATE UNLOGGED TABLE IF NOT EXISTS %I (part text COLLATE "C" NOT NULL, id text COLLATE "C" NOT NULL,'
            ' name text COLLATE "C" NOT NULL, queue text COLLATE "C" NOT NULL, priority smallint NOT NULL,'
            ' delay_seconds float8, due_at float8, lifetime_seconds float8, expires_at float8,'
            ' visibility_timeout float8, meta text, body text NOT NULL)', _table);
        INSERT INTO stage_jobs (ns, job, staged_at) VALUES (_ns, _job, _now) ON CONFLICT (ns, job) DO NOTHING;
    ELSE
        -- Seldom, so that stagers do not wait for one another: it only keeps the leftovers' broom away.
        UPDATE stage_jobs j SET staged_at = _now WHERE j.ns = _ns AND j.job = _job AND j.staged_at < _now - 3600;
    END IF;
    RETURN _table;
END $$
