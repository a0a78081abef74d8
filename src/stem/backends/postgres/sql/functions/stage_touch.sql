-- Staging.stage: note that the job is being staged.
CREATE OR REPLACE FUNCTION stage_touch(_ns text, _job text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _now float8 := now_seconds();
BEGIN
    INSERT INTO stage_jobs (ns, job, staged_at) VALUES (_ns, _job, _now) ON CONFLICT (ns, job) DO NOTHING;
    IF NOT FOUND THEN
        -- Seldom, so that stagers do not wait for one another: it only keeps the leftovers' broom away.
        UPDATE stage_jobs j SET staged_at = _now WHERE j.ns = _ns AND j.job = _job AND j.staged_at < _now - 3600;
    END IF;
END $$
