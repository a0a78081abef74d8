-- To version 14: the rows of large writes, which lay in child tables of messages and events, move into these; what open jobs
-- have staged in two tables per slot moves into the table of the job, in its order: a part began in a slot and never returned.
DO $$
DECLARE
    _child record;
    _columns text;
    _moved bigint;
    _job record;
    _slot text;
BEGIN
    FOR _child IN
        SELECT i.inhrelid::regclass AS name, i.inhparent AS parent_id, i.inhparent::regclass AS parent FROM pg_inherits i
        WHERE i.inhparent IN ('messages'::regclass, 'events'::regclass) ORDER BY i.inhrelid
    LOOP
        EXECUTE format('LOCK TABLE %s, %s IN ACCESS EXCLUSIVE MODE', _child.parent, _child.name);
        EXECUTE format('ALTER TABLE %s NO INHERIT %s', _child.name, _child.parent);
        SELECT string_agg(quote_ident(a.attname), ', ') INTO _columns FROM pg_attribute a
        WHERE a.attrelid = _child.parent_id AND a.attnum > 0 AND NOT a.attisdropped;
        EXECUTE format('INSERT INTO %1$s (%3$s) SELECT %3$s FROM %2$s ON CONFLICT DO NOTHING', _child.parent, _child.name, _columns);
        GET DIAGNOSTICS _moved = ROW_COUNT;
        IF _child.parent_id = 'events'::regclass THEN  -- their numbers are older than they are; see prune_cutoff
            PERFORM setval('event_n', (SELECT last_value FROM event_n) + _moved);
        END IF;
        EXECUTE format('DROP TABLE %s', _child.name);
    END LOOP;

    FOR _job IN
        SELECT j.ns, j.job, stage_table(j.ns, j.job) AS name FROM stage_jobs j
        WHERE to_regclass(stage_table(j.ns, j.job) || '_0') IS NOT NULL OR to_regclass(stage_table(j.ns, j.job) || '_1') IS NOT NULL
    LOOP
        EXECUTE format('ALTER TABLE IF EXISTS %I RENAME TO %I', _job.name, _job.name || '_late');
        PERFORM stage_open(_job.ns, _job.job);
        FOREACH _slot IN ARRAY ARRAY[_job.name || '_0', _job.name || '_1'] LOOP
            CONTINUE WHEN to_regclass(_slot) IS NULL;
            EXECUTE format('INSERT INTO %I (part, id, name, queue, priority, visibility_timeout, meta, body)'
                           ' SELECT part, id, name, queue, priority, visibility_timeout, meta, body FROM %I ORDER BY seq',
                           _job.name, _slot);
            EXECUTE format('DROP TABLE %I, %I', _slot, _slot || 'e');
        END LOOP;
        IF to_regclass(_job.name || '_late') IS NOT NULL THEN
            EXECUTE format('INSERT INTO %I SELECT * FROM %I', _job.name, _job.name || '_late');
            EXECUTE format('DROP TABLE %I', _job.name || '_late');
        END IF;
    END LOOP;
    DROP TABLE IF EXISTS stage_parts;
END $$
