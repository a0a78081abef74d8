-- Lock the rows of these leases, in the order of their ids as every batch does, and say where they lie; of a lease that is good no longer there is
-- none. The statement that follows sees them as they are now, and nobody can change them before it commits.
-- The look-up is lateral so that it goes by the primary key, whatever the planner believes of the table's size.
CREATE OR REPLACE FUNCTION held(_ns text, _ids text[], _fences text[]) RETURNS tid[] LANGUAGE plpgsql AS $$
DECLARE
    _rows tid[];
BEGIN
    SELECT array_agg(m.row) INTO _rows
    FROM (SELECT v.id, v.fence FROM unnest(_ids, _fences) AS v (id, fence) ORDER BY v.id COLLATE "C") u
    CROSS JOIN LATERAL (
        SELECT x.ctid AS row FROM messages x
        WHERE x.ns = _ns AND x.id = u.id AND x.fence = u.fence::bigint AND x.leased_until IS NOT NULL
        FOR UPDATE
    ) m;
    RETURN coalesce(_rows, '{}');
END $$
