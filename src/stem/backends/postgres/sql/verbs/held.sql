-- Lock the rows of these leases, in the order of their ids as every batch does, and say where they lie and whose they are; of a
-- lease that is good no longer there is none. The statement that follows sees them as they are now, and nobody can change them
-- before it commits. It has to ask for the ids too: a place is that of another row in each table below messages.
-- It asks by `m.ns || ''` and `m.id || ''`, which no index serves: to a planner who believes the table empty, because it was when
-- it was last vacuumed, all of a namespace looks cheaper than ten addresses, and every batch would read all that waits.
-- The look-up is lateral so that it goes by the primary key, whatever the planner believes of the table's size.
CREATE OR REPLACE FUNCTION held(_ns text, _ids text[], _fences text[], OUT rows tid[], OUT mine text[]) LANGUAGE plpgsql AS $$
BEGIN
    SELECT array_agg(m.row), array_agg(DISTINCT m.id) INTO rows, mine
    FROM (SELECT v.id, v.fence FROM unnest(_ids, _fences) AS v (id, fence) ORDER BY v.id COLLATE "C") u
    CROSS JOIN LATERAL (
        SELECT x.ctid AS row, x.id FROM messages x
        WHERE x.ns = _ns AND x.id = u.id AND x.fence = u.fence::bigint AND x.leased_until IS NOT NULL
        FOR UPDATE
    ) m;
END $$
