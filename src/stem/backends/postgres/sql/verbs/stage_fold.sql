-- Staging.promote: where what the job's slots hold cannot become part of the store, it joins the others, to be copied. It comes
-- before them, for a part that leaves its slot does not come back to it.
CREATE OR REPLACE FUNCTION stage_fold(_ns text, _job text, _parts text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _table text := stage_open(_ns, _job);
    _slot record;
    _held text[] := '{}';
BEGIN
    FOR _slot IN SELECT * FROM stage_slots(_ns, _job) LOOP
        _held := _held || format('SELECT part, id, name, queue, priority, visibility_timeout, meta, body, seq FROM %I', _slot.tasks);
    END LOOP;
    EXECUTE format('ALTER TABLE %I RENAME TO %I', _table, _table || '_late');
    PERFORM stage_open(_ns, _job);
    EXECUTE format(
        'INSERT INTO %I (part, id, name, queue, priority, visibility_timeout, meta, body)'
        ' SELECT part, id, name, queue, priority, visibility_timeout, meta, body FROM (%s) s WHERE part = ANY ($1) ORDER BY seq',
        _table, array_to_string(_held, ' UNION ALL ')) USING _parts;
    EXECUTE format('INSERT INTO %I SELECT * FROM %I', _table, _table || '_late');
    EXECUTE format('DROP TABLE %I', _table || '_late');
    FOR _slot IN SELECT * FROM stage_slots(_ns, _job) LOOP
        EXECUTE format('DROP TABLE %I, %I', _slot.tasks, _slot.log);
    END LOOP;
END $$
