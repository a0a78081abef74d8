-- Staging.promote: where a job's slots cannot become part of the store, their rows join the job's others, to be copied.
CREATE OR REPLACE FUNCTION stage_fold(_ns text, _job text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _slot record;
BEGIN
    FOR _slot IN SELECT * FROM stage_slots(_ns, _job) LOOP
        EXECUTE format(
            'INSERT INTO %I (part, id, name, queue, priority, visibility_timeout, meta, body)'
            ' SELECT part, id, name, queue, priority, visibility_timeout, meta, body FROM %I', stage_open(_ns, _job), _slot.tasks);
        EXECUTE format('DROP TABLE %I, %I', _slot.tasks, _slot.log);
    END LOOP;
END $$
