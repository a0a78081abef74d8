-- Staging.promote: what the job's slots hold becomes part of the store as it is, in tables below messages and events. Answers
-- with the queues; null, and nothing was done, if it cannot: there is more in them than these rows, one of the ids is known or
-- may be there twice, there are enough such tables already, or somebody keeps the store from being altered.
-- What all rows have in common becomes a default, which costs nothing a row. From the last lock on nobody can push before this
-- commits, so that no id of theirs turns up meanwhile.
CREATE OR REPLACE FUNCTION stage_attach(_ns text, _job text, _parts text[], _rows bigint, _now float8) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    _xid text := pg_current_xact_id()::text;
    _patience text := current_setting('lock_timeout');
    _slot record;
    _found bigint := 0;
    _more bigint;
    _queues text[] := '{}';
    _other text[];
BEGIN
    IF (SELECT count(*) FROM pg_inherits i WHERE i.inhparent = 'messages'::regclass) > 6
       OR (SELECT count(*) FROM pg_inherits i WHERE i.inhparent = 'events'::regclass) > 62 THEN
        RETURN NULL;
    END IF;
    PERFORM set_config('lock_timeout', '5s', true), set_config('enable_seqscan', 'on', true);
    FOR _slot IN SELECT * FROM stage_slots(_ns, _job) LOOP
        EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', _slot.tasks);  -- whoever still stages is waited for
        EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', _slot.log);
        EXECUTE format('SELECT coalesce(sum(q.rows), 0), array_agg(q.queue) FROM ('
                       'SELECT s.queue, count(*) AS rows FROM %I s GROUP BY s.queue) q', _slot.tasks) INTO _more, _other;
        _found := _found + _more;
        _queues := _queues || _other;
    END LOOP;
    IF _found <> _rows OR stage_repeats(_ns, _job, _parts) OR stage_overlap(_ns, _job, _parts) THEN
        RAISE unique_violation;
    END IF;

    FOR _slot IN SELECT * FROM stage_slots(_ns, _job) LOOP
        PERFORM stage_seal(_ns, _slot.tasks);
        EXECUTE format(
            'ALTER TABLE %1$I ADD fence bigint NOT NULL DEFAULT 0, ADD enqueued_at float8 NOT NULL DEFAULT %2$L,'
            ' ADD updated_at float8 NOT NULL DEFAULT %2$L, ADD leased_until float8, ADD started_at float8,'
            ' ADD heartbeat_at float8, ADD expires_at float8, ADD attempt integer NOT NULL DEFAULT 0,'
            ' ADD deaths integer NOT NULL DEFAULT 0, ADD worker text, ADD unique_key text COLLATE "C", ADD error text,'
            ' ADD progress text, RESET (autovacuum_enabled), SET (autovacuum_vacuum_scale_factor = 0,'
            ' autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0,'
            ' autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 100000)', _slot.tasks, _now);
        EXECUTE format(
            'ALTER TABLE %1$I ADD ns text COLLATE "C" NOT NULL DEFAULT %2$L, ADD txid xid8 NOT NULL DEFAULT %3$L,'
            ' ADD at float8 NOT NULL DEFAULT %4$L, ADD enqueued_at float8 NOT NULL DEFAULT %4$L, ADD started_at float8,'
            ' ADD attempt integer NOT NULL DEFAULT 0, ADD kind text COLLATE "C" NOT NULL DEFAULT ''enqueued'','
            ' ADD worker text, ADD data text, RESET (autovacuum_enabled)', _slot.log, _ns, _xid, _now);
        EXECUTE format('ALTER TABLE %I ADD PRIMARY KEY (ns, txid, n)', _slot.log);
    END LOOP;

    LOCK TABLE messages, events IN SHARE UPDATE EXCLUSIVE MODE;  -- waits for a vacuum, and nobody waits behind it
    PERFORM set_config('lock_timeout', '500ms', true);
    LOCK TABLE messages IN SHARE ROW EXCLUSIVE MODE;
    IF stage_overlap(_ns, _job, _parts) THEN
        RAISE unique_violation;
    END IF;
    FOR _slot IN SELECT * FROM stage_slots(_ns, _job) LOOP
        EXECUTE format('ALTER TABLE %I INHERIT messages', _slot.tasks);
        EXECUTE format('ALTER TABLE %I INHERIT events', _slot.log);
        -- A try that was given up may yet stage more under the old names.
        EXECUTE format('ALTER TABLE %I RENAME TO %I', _slot.tasks, 'messages_' || _xid || '_' || _slot.slot);
        EXECUTE format('ALTER TABLE %I RENAME TO %I', _slot.log, 'events_' || _xid || '_' || _slot.slot);
    END LOOP;
    PERFORM set_config('lock_timeout', _patience, true);
    RETURN _queues;
EXCEPTION WHEN unique_violation OR lock_not_available OR deadlock_detected OR insufficient_privilege THEN
    PERFORM set_config('lock_timeout', _patience, true);
    RETURN NULL;
END $$
