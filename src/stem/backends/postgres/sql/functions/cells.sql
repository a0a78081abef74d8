-- Split a column of a batch: one text, its cells joined by the character 1 (JSON never holds it raw). An empty cell is null, an
-- empty column has nulls only. Free text is sent as JSON strings.
CREATE OR REPLACE FUNCTION cells(joined text) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT string_to_array(joined, E'\x01', '') $$
