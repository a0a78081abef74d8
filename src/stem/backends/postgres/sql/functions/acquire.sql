-- Locks.acquire: return a fencing number, which grows with every change of owner, or null while another owner holds the lock.
-- Callers are served one at a time per lock, so that a number is drawn only once the lock is known to be free.
CREATE OR REPLACE FUNCTION acquire(_ns text, _name text, _owner text, _seconds float8)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    held locks%ROWTYPE;
    _now float8;
    _fence bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('stem.lock/' || _ns || '/' || _name, 0));
    -- Locked, because its owner may be renewing it: what counts is how that ends, and the time after it.
    SELECT * INTO held FROM locks l WHERE l.ns = _ns AND l.name = _name FOR UPDATE;
    _now := now_seconds();
    IF held.held_until > _now AND held.owner <> _owner THEN
        RETURN NULL;
    END IF;
    _fence := CASE WHEN held.held_until > _now THEN held.fence ELSE nextval('lock_fence') END;
    INSERT INTO locks (ns, name, owner, fence, held_until) VALUES (_ns, _name, _owner, _fence, _now + _seconds)
    ON CONFLICT (ns, name) DO UPDATE
    SET owner = excluded.owner, fence = excluded.fence, held_until = excluded.held_until;
    RETURN _fence;
END $$
