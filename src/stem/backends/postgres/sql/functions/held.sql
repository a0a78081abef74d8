-- Part of start, report, renew and settle: lock the rows of these leases, in the order of their ids as every batch does, and
-- return their addresses; a lost lease has none. The statement that follows sees the rows as they are now, and nobody can change
-- them before it commits. It finds them by address alone and joins by no column that has an index: to a planner that believes
-- the table empty, because it was at the last vacuum, an index scan of the whole table looks cheaper.
-- The look-up is lateral so that it uses the primary key, whatever the planner believes about the table's size.
CREATE OR REPLACE FUNCTION held(_ns text, _ids text[], _fences text[]) RETURNS tid[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN (
        SELECT array_agg(m.row)
        FROM (SELECT v.id, v.fence FROM unnest(_ids, _fences) AS v (id, fence) ORDER BY v.id COLLATE "C") u
        CROSS JOIN LATERAL (
            SELECT x.ctid AS row FROM messages x
            WHERE x.ns = _ns AND x.id = u.id AND x.fence = u.fence::bigint AND x.leased_until IS NOT NULL
            FOR UPDATE
        ) m
    );
END $$
