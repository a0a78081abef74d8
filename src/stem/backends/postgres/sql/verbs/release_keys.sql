-- Unique keys that were held until these tasks ended are free again.
CREATE OR REPLACE FUNCTION release_keys(_ns text, _keys text[], _ids text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM uniques u WHERE u.ns = _ns AND u.key = ANY (_keys) AND u.id = ANY (_ids) AND u.held_until IS NULL;
END $$
