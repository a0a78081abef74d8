-- Staging.discard: drop what the job has staged. That it was promoted is remembered.
CREATE OR REPLACE FUNCTION stage_discard(_ns text, _job text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _slot record;
BEGIN
    EXECUTE format('DROP TABLE IF EXISTS %I', stage_table(_ns, _job));
    FOR _slot IN SELECT * FROM stage_slots(_ns, _job) LOOP
        EXECUTE format('DROP TABLE %I, %I', _slot.tasks, _slot.log);
    END LOOP;
    DELETE FROM stage_parts p WHERE p.ns = _ns AND p.job = _job;
    DELETE FROM stage_jobs j WHERE j.ns = _ns AND j.job = _job AND j.promoted_at IS NULL;
END $$
