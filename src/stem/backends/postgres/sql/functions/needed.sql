-- Part of push and prune: tell whether a task that waited for a record may still read it: one that lives, lies among the dead
-- letters, may be revived, or ended by itself and whose record is kept.
CREATE OR REPLACE FUNCTION needed(_ns text, _dependents text[]) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    _entry text;
    _id text;
BEGIN
    FOREACH _entry IN ARRAY coalesce(_dependents, '{}') LOOP
        _id := split_part(_entry, ' ', 1);
        IF EXISTS (SELECT FROM messages m WHERE m.ns = _ns AND m.id = _id)
           OR EXISTS (SELECT FROM records r WHERE r.ns = _ns AND r.id = _id AND r.is_join)
           OR EXISTS (SELECT FROM dead d WHERE d.ns = _ns AND d.id = _id)
           OR EXISTS (SELECT FROM revivable v WHERE v.ns = _ns AND v.id = _id) THEN
            RETURN true;
        END IF;
    END LOOP;
    RETURN false;
END $$
