-- Part of start, report, renew and settle: the holders of these leases live, so a reclaim of their tasks counts as no death.
-- Goes one by one, by key, because there are few.
CREATE OR REPLACE FUNCTION survived(_ns text, _ids text, _fences text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _id text;
    _fence bigint;
BEGIN
    FOR _id, _fence IN
        SELECT u.id, u.fence::bigint FROM unnest(cells(_ids), cells(_fences)) AS u (id, fence) ORDER BY u.id COLLATE "C"
    LOOP
        DELETE FROM lost l WHERE l.ns = _ns AND l.id = _id AND l.fence = _fence;
        IF FOUND THEN
            UPDATE messages m SET deaths = greatest(0, m.deaths - 1) WHERE m.ns = _ns AND m.id = _id;
        END IF;
    END LOOP;
END $$
