-- Broker.renew: let each lease end later, never earlier. Returns the places of the leases that are held.
-- A renewal lost in a crash of the server is repeated before the lease ends, so its commit need not be flushed.
CREATE OR REPLACE FUNCTION renew(_ns text, _ids text, _fences text, _seconds float8)
RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    _now float8 := now_seconds();
    ids text[] := cells(_ids);
    fences text[] := cells(_fences);
    rows tid[] := held(_ns, ids, fences);
    places integer[];
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    WITH renewed AS (
        UPDATE messages m
        SET leased_until = greatest(m.leased_until, _now + greatest(_seconds, coalesce(m.visibility_timeout, 0)))
        WHERE m.ctid = ANY (rows) RETURNING m.id, m.fence
    )
    SELECT array_agg(u.place) INTO places
    FROM renewed m JOIN unnest(ids, fences) WITH ORDINALITY AS u (id, fence, place)
         ON u.id = m.id AND u.fence::bigint = m.fence;
    RETURN places;
END $$
