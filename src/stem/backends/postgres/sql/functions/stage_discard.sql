-- Staging.discard: delete what the job has staged. The answer of its promotion is kept.
CREATE OR REPLACE FUNCTION stage_discard(_ns text, _job text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('DROP TABLE IF EXISTS %I', stage_table(_ns, _job));
    DELETE FROM stage_jobs j WHERE j.ns = _ns AND j.job = _job AND j.promoted_at IS NULL;
END $$
