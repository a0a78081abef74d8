-- Broker.push with unique keys as processes of versions before 17 call it.
-- Returns, one row per push in order, the id to ask for and whether it was created.
CREATE OR REPLACE FUNCTION push_unique(
    _ns text, _ids text, _names text, _queues text, _priorities text, _delays text, _not_before text,
    _expires_in text, _expires_at text, _visibility text, _metas text, _bodies text, _keys text, _seconds text,
    _ttl float8 DEFAULT 'Infinity'
) RETURNS TABLE (answer text, created boolean) LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT p.answer, p.created
    FROM push_keyed(_ns, _ids, _names, _queues, _priorities, _delays, _not_before, _expires_in, _expires_at, _visibility, _metas,
                    _bodies, '', '', '', '', _keys, _seconds, '', '', _ttl) p
    WHERE p.answer IS NOT NULL;
END $$
