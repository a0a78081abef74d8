-- Broker.cancel: end those of the tasks that wait, and leave the others alone. Rows are locked in the order of their ids; a task
-- that is claimed meanwhile no longer waits. The look-up is lateral, as in held. Returns the ids, and what carry_on tells.
CREATE OR REPLACE FUNCTION cancel(
    _ns text, _ids text[], _reason text, OUT cancelled text[], OUT told_queues text[], OUT told_ended text[]
) LANGUAGE plpgsql AS $$
DECLARE
    _gone record;
    _told record;
BEGIN
    _gone := cancel_rows(_ns, ARRAY(
        SELECT m.row FROM (SELECT v.id FROM unnest(_ids) AS v (id) ORDER BY v.id COLLATE "C") u
        CROSS JOIN LATERAL (
            SELECT x.ctid AS row FROM messages x WHERE x.ns = _ns AND x.id = u.id AND x.place IN (0, 1, 3) FOR UPDATE
        ) m
    ), _reason);
    cancelled := _gone.ids;
    IF _gone.awaited IS NOT NULL THEN
        _told := carry_on(_ns, _gone.awaited);
        told_queues := _told.told_queues;
        told_ended := _told.told_ended;
    END IF;
END $$
