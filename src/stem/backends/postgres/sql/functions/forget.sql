-- Part of push and prune: delete the records in these rows, and what belongs to them: steps, and what would revive them.
CREATE OR REPLACE FUNCTION forget(_ns text, _rows tid[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    _ids text[];
BEGIN
    WITH gone AS (
        DELETE FROM records r WHERE r.ctid = ANY (_rows) RETURNING r.id
    )
    SELECT array_agg(id) INTO _ids FROM gone;
    IF EXISTS (SELECT FROM steps) THEN  -- most stores have none
        DELETE FROM steps s WHERE s.ns = _ns AND s.id = ANY (_ids);
    END IF;
    IF EXISTS (SELECT FROM revivable) THEN
        DELETE FROM revivable v WHERE v.ns = _ns AND v.id = ANY (_ids);
    END IF;
    RETURN coalesce(cardinality(_ids), 0);
END $$
