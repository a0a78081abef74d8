-- Broker.cancel: end those of the tasks that wait, and leave the others alone. Rows are locked in the order of their ids; one
-- that is claimed meanwhile waits no more. The look-up is lateral, as in held.
CREATE OR REPLACE FUNCTION cancel(_ns text, _ids text[], _reason text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    rows tid[];
    ids text[];
BEGIN
    SELECT array_agg(m.row), array_agg(m.id) INTO rows, ids
    FROM (SELECT v.id FROM unnest(_ids) AS v (id) ORDER BY v.id COLLATE "C") u
    CROSS JOIN LATERAL (
        SELECT x.ctid AS row, x.id FROM messages x WHERE x.ns = _ns AND x.id = u.id AND x.place IN (0, 1) FOR UPDATE
    ) m;
    RETURN cancel_rows(_ns, rows, ids, _reason);
END $$
