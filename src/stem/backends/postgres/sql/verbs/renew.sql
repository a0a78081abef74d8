-- Broker.renew: let each lease end later, never earlier. Answers with the positions of the held leases.
-- A renewal lost in a crash of the server is made again before the lease ends, so its commit need not be flushed.
CREATE OR REPLACE FUNCTION renew(_ns text, _ids text, _fences text, _seconds float8)
RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    _now float8 := now_seconds();
    _held integer[];
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    WITH renewed AS (
        UPDATE messages m
        SET leased_until = greatest(m.leased_until, _now + greatest(_seconds, coalesce(m.visibility_timeout, 0)))
        FROM unnest(cells(_ids), cells(_fences)) WITH ORDINALITY AS u (id, fence, ord)
        WHERE m.ns = _ns AND m.id = u.id AND m.fence = u.fence::bigint AND m.place = 2
        RETURNING u.ord
    )
    SELECT array_agg(ord) INTO _held FROM renewed;
    RETURN _held;
END $$
