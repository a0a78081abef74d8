-- Revokes.put: give consecutive versions; the last revoke of a task replaces the others. Returns the store's time and the
-- first version given.
CREATE OR REPLACE FUNCTION revoke_tasks(_ns text, _count integer, _ids text, _offsets text, _expires_in text, _bodies text)
RETURNS TABLE (at float8, first_version bigint) LANGUAGE plpgsql AS $$
DECLARE
    _now float8;
    _first bigint;
BEGIN
    INSERT INTO revoke_versions AS v (ns, version) VALUES (_ns, _count)
    ON CONFLICT (ns) DO UPDATE SET version = v.version + _count
    RETURNING version - _count + 1 INTO _first;
    _now := now_seconds();
    INSERT INTO revokes (ns, task_id, version, created_at, expires_at, body)
    SELECT _ns, u.id, _first + u.place::integer, _now, _now + u.expires_in::float8, u.body
    FROM unnest(cells(_ids), cells(_offsets), cells(_expires_in), cells(_bodies)) AS u (id, place, expires_in, body)
    ON CONFLICT (ns, task_id) DO UPDATE
    SET version = excluded.version, created_at = excluded.created_at, expires_at = excluded.expires_at,
        body = excluded.body;
    RETURN QUERY SELECT _now, _first;
END $$
