-- Make sure that the key has a row in places, and lock it until the transaction ends.
CREATE OR REPLACE FUNCTION lock_places(_ns text, _key text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    LOOP
        PERFORM FROM places p WHERE p.ns = _ns AND p.key = _key FOR UPDATE;
        EXIT WHEN FOUND;
        -- Another may make it first, or prune it in between: then look again.
        INSERT INTO places (ns, key, expires_at) VALUES (_ns, _key, 0) ON CONFLICT (ns, key) DO NOTHING;
        EXIT WHEN FOUND;
    END LOOP;
END $$
