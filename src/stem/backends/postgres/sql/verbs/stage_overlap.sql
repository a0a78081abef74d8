-- Staging.promote: whether the store knows any id between the first and the last of some part. A job's ids lie close
-- together, so that this one look stands for a look at each.
CREATE OR REPLACE FUNCTION stage_overlap(_ns text, _job text, _parts text[]) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    _part record;
BEGIN
    FOR _part IN SELECT p.low, p.high FROM stage_parts p WHERE p.ns = _ns AND p.job = _job AND p.part = ANY (_parts)
    LOOP
        IF EXISTS (SELECT FROM records r WHERE r.ns = _ns AND r.id >= _part.low AND r.id <= _part.high)
           OR EXISTS (SELECT FROM messages m WHERE m.ns = _ns AND m.id >= _part.low AND m.id <= _part.high) THEN
            RETURN true;
        END IF;
    END LOOP;
    RETURN false;
END $$
