-- The tables that a job's many plain pushes are staged in: tasks, and their events. Of two slots, those that are there.
CREATE OR REPLACE FUNCTION stage_slots(_ns text, _job text) RETURNS TABLE (slot integer, tasks text, log text) LANGUAGE sql AS $$
    SELECT n, format('%s_%s', stage_table(_ns, _job), n), format('%s_%se', stage_table(_ns, _job), n)
    FROM generate_series(0, 1) AS n WHERE to_regclass(format('%s_%s', stage_table(_ns, _job), n)) IS NOT NULL
$$
