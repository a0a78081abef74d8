-- Part of Upkeep.prune: drop the tables below messages and events of which nothing is left. One that is in use stays for now.
CREATE OR REPLACE FUNCTION stage_drop() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    _patience text := current_setting('lock_timeout');
    _table regclass;
    _is_used boolean;
    _gone bigint := 0;
BEGIN
    FOR _table IN
        SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent IN ('messages'::regclass, 'events'::regclass)
    LOOP
        BEGIN
            EXECUTE format('SELECT EXISTS (SELECT FROM %s)', _table) INTO _is_used;
            CONTINUE WHEN _is_used;
            PERFORM set_config('lock_timeout', '200ms', true);  -- claims wait as long as this does
            EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', _table);
            EXECUTE format('SELECT EXISTS (SELECT FROM %s)', _table) INTO _is_used;
            IF NOT _is_used THEN
                EXECUTE format('DROP TABLE %s', _table);
                _gone := _gone + 1;
            END IF;
        EXCEPTION WHEN lock_not_available OR undefined_table OR insufficient_privilege THEN
            NULL;
        END;
    END LOOP;
    PERFORM set_config('lock_timeout', _patience, true);
    RETURN _gone;
END $$
