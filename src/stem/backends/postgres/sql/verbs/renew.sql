-- Broker.renew: let each lease end later, never earlier. Answers with the places of the leases that are held.
-- A renewal lost in a crash of the server is made again before the lease ends, so its commit need not be flushed.
CREATE OR REPLACE FUNCTION renew(_ns text, _ids text, _fences text, _seconds float8)
RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    _now float8 := now_seconds();
    ids text[] := cells(_ids);
    fences text[] := cells(_fences);
    rows tid[];
    mine text[];
    places integer[];
BEGIN
    SELECT h.rows, h.mine INTO rows, mine FROM held(_ns, ids, fences) h;
    PERFORM set_config('synchronous_commit', 'off', true);
    WITH renewed AS (
        UPDATE messages m
        SET leased_until = greatest(m.leased_until, _now + greatest(_seconds, coalesce(m.visibility_timeout, 0)))
        FROM unnest(mine) AS h (id) WHERE m.ctid = ANY (rows) AND m.ns || '' = _ns AND m.id || '' = h.id RETURNING m.id, m.fence
    )
    SELECT array_agg(u.place) INTO places
    FROM renewed m JOIN unnest(ids, fences) WITH ORDINALITY AS u (id, fence, place)
         ON u.id = m.id AND u.fence::bigint = m.fence;
    RETURN places;
END $$
