-- Free the unique keys that were held until these tasks ended; also those held for some time by tasks that were cancelled,
-- because their work was not done.
CREATE OR REPLACE FUNCTION release_keys(_ns text, _keys text[], _ids text[], _cancelled text[] DEFAULT '{}') RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM uniques u WHERE u.ns = _ns AND u.key = ANY (_keys) AND u.id = ANY (_ids)
      AND (u.held_until IS NULL OR u.id = ANY (_cancelled));
END $$
