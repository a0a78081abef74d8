-- How a batch travels: a column is one text, its cells joined by the character 1 (JSON never holds it raw); an empty
-- cell is null, an empty column all nulls. Free text comes as JSON strings.
CREATE OR REPLACE FUNCTION cells(joined text) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT string_to_array(joined, E'\x01', '') $$
