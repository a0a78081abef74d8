-- Broker.cancel: end those of the tasks that wait, and leave the others alone. Rows are locked in the order of their ids; a task
-- that is claimed meanwhile no longer waits. The look-up is lateral, as in held.
CREATE OR REPLACE FUNCTION cancel(_ns text, _ids text[], _reason text) RETURNS text[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN cancel_rows(_ns, ARRAY(
        SELECT m.row FROM (SELECT v.id FROM unnest(_ids) AS v (id) ORDER BY v.id COLLATE "C") u
        CROSS JOIN LATERAL (
            SELECT x.ctid AS row FROM messages x WHERE x.ns = _ns AND x.id = u.id AND x.place IN (0, 1) FOR UPDATE
        ) m
    ), _reason);
END $$
