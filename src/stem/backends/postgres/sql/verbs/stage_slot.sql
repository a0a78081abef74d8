-- Staging.stage of many plain pushes, first step: a slot that nobody else writes into before this transaction ends, its tables
-- made by the first. So each lies in the order of its places, which makes it cheap to index; two keep a server busy.
-- They have what differs from push to push; the promotion adds what does not. They are logged, for they may become part of the
-- store as they are, but until then their commits need not be flushed.
CREATE OR REPLACE FUNCTION stage_slot(_ns text, _job text, _first integer)
RETURNS TABLE (slot integer, tasks text, log text) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM stage_touch(_ns, _job);
    slot := _first;
    tasks := format('%s_%s', stage_table(_ns, _job), slot);
    IF NOT pg_try_advisory_xact_lock(hashtextextended('stem.stage/' || tasks, 0)) THEN
        slot := 1 - _first;
        tasks := format('%s_%s', stage_table(_ns, _job), slot);
        PERFORM pg_advisory_xact_lock(hashtextextended('stem.stage/' || tasks, 0));
    END IF;
    log := tasks || 'e';
    IF to_regclass(tasks) IS NULL THEN
        EXECUTE format(
            'CREATE TABLE %I (part text COLLATE "C" NOT NULL, id text COLLATE "C" NOT NULL,'
            ' seq bigint NOT NULL DEFAULT nextval(''task_seq''), priority smallint NOT NULL, visibility_timeout float8,'
            ' queue text COLLATE "C" NOT NULL, name text COLLATE "C" NOT NULL, meta text NOT NULL DEFAULT ''{}'','
            ' body text NOT NULL) WITH (fillfactor = 90, autovacuum_enabled = off)', tasks);
        EXECUTE format(
            'CREATE TABLE %I (n bigint NOT NULL DEFAULT nextval(''event_n''), task_id text COLLATE "C" NOT NULL,'
            ' name text COLLATE "C" NOT NULL, queue text COLLATE "C" NOT NULL)'
            ' WITH (autovacuum_enabled = off)', log);
    END IF;
    RETURN NEXT;
END $$
