-- Part of every push: tell which of these ids, just stored in messages, belong to a task that has ended. A record past its
-- retention (_ttl) is deleted, and its id is free.
CREATE OR REPLACE FUNCTION known(_ns text, _ids text[], _ttl float8) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    _known text[] := (SELECT array_agg(r.id) FROM records r WHERE r.ns = _ns AND r.id = ANY (_ids));
BEGIN
    IF _known IS NOT NULL THEN
        DELETE FROM records r WHERE r.ns = _ns AND r.id = ANY (_known) AND r.kept_from <= now_seconds() - _ttl;
        _known := (SELECT array_agg(r.id) FROM records r WHERE r.ns = _ns AND r.id = ANY (_known));
    END IF;
    RETURN _known;
END $$
