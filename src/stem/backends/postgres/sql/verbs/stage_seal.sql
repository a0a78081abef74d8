-- Staging.promote: index a slot that is staged. Twice is a no-op. Raises unique_violation if it has an id twice, as after two
-- tries at a part.
CREATE OR REPLACE FUNCTION stage_seal(_ns text, _tasks text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', _tasks);
    IF EXISTS (SELECT FROM pg_index i WHERE i.indrelid = _tasks::regclass) THEN
        RETURN;
    END IF;
    PERFORM set_config('maintenance_work_mem', '128MB', true);
    PERFORM set_config('max_parallel_maintenance_workers', '0', true);  -- one slot is indexed beside the other
    EXECUTE format('ALTER TABLE %I ADD ns text COLLATE "C" NOT NULL DEFAULT %L, ADD place smallint NOT NULL DEFAULT 0,'
                   ' ADD due_at float8 NOT NULL DEFAULT %L', _tasks, _ns, now_seconds());
    EXECUTE format('ALTER TABLE %I ADD PRIMARY KEY (id, ns)', _tasks);
    EXECUTE format('CREATE INDEX ON %I (ns, queue, priority DESC, seq) WHERE place = 0', _tasks);
    EXECUTE format('CREATE INDEX ON %I (ns, queue, due_at, seq) WHERE place = 1', _tasks);
    EXECUTE format('CREATE INDEX ON %I (ns, seq) WHERE place = 2', _tasks);
    EXECUTE format('CREATE INDEX ON %I (ns, seq) WHERE seq > 0', _tasks);
END $$
