-- Limiter.free: give up places; a place that its holder does not hold is skipped. Keys are locked in order, as in hold_places.
CREATE OR REPLACE FUNCTION free_places(_ns text, _keys text, _holders text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    wanted record;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    FOR wanted IN
        SELECT u.key, array_agg(u.holder) AS holders FROM unnest(cells(_keys), cells(_holders)) AS u (key, holder)
        GROUP BY u.key ORDER BY u.key COLLATE "C"
    LOOP
        PERFORM FROM places p WHERE p.ns = _ns AND p.key = wanted.key FOR UPDATE;
        DELETE FROM holders h WHERE h.ns = _ns AND h.key = wanted.key AND h.holder = ANY (wanted.holders);
    END LOOP;
END $$
