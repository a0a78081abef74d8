-- Part of every push: tell which of these ids, just stored in messages, belong to a task that has ended. A record past its
-- retention (_ttl) that no other task needs is deleted, and its id is free.
CREATE OR REPLACE FUNCTION known(_ns text, _ids text[], _ttl float8) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    _known text[] := (SELECT array_agg(r.id) FROM records r WHERE r.ns = _ns AND r.id = ANY (_ids));
    _horizon float8 := now_seconds() - _ttl;
BEGIN
    IF _known IS NOT NULL THEN
        PERFORM forget(_ns, ARRAY(
            SELECT r.ctid FROM records r
            WHERE r.ns = _ns AND r.id = ANY (_known) AND least(r.kept_from, r.finished_at) <= _horizon AND r.kept_from IS NOT NULL
              AND (r.dependents IS NULL OR NOT needed(_ns, r.dependents))
            FOR UPDATE
        ));
        _known := (SELECT array_agg(r.id) FROM records r WHERE r.ns = _ns AND r.id = ANY (_known));
    END IF;
    RETURN _known;
END $$
