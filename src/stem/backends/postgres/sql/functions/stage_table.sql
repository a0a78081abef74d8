-- Return the name of the table in which a job's pushes are staged.
CREATE OR REPLACE FUNCTION stage_table(_ns text, _job text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT 'staged_' || md5(_ns || '/' || _job) $$
