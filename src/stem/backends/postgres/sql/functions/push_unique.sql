-- Broker.push if some pushes have unique keys: one after the other, because an earlier push may hold the key of a later one.
-- Returns, one row per push in order, the id to ask for and whether it was created.
CREATE OR REPLACE FUNCTION push_unique(
    _ns text, _ids text, _names text, _queues text, _priorities text, _delays text, _not_before text,
    _expires_in text, _expires_at text, _visibility text, _metas text, _bodies text, _keys text, _seconds text,
    _ttl float8 DEFAULT 'Infinity'
) RETURNS TABLE (answer text, created boolean) LANGUAGE plpgsql AS $$
DECLARE
    _now float8 := now_seconds();
    _one record;
    _until float8;
    _holder text;
    _key text;
    _is_known boolean := false;
BEGIN
    FOR _one IN
        SELECT * FROM unnest(cells(_ids), cells(_names), cells(_queues), cells(_priorities), cells(_delays),
                             cells(_not_before), cells(_expires_in), cells(_expires_at), cells(_visibility),
                             cells(_metas), cells(_bodies), cells(_keys), cells(_seconds))
                      AS u (id, name, queue, priority, delay, not_before, expires_in, expires_at, visibility, meta, body,
                            key, seconds)
    LOOP
        answer := _one.id;
        created := false;
        _key := _one.key::json #>> '{}';
        _until := _now + _one.seconds::float8;
        IF EXISTS (SELECT FROM messages m WHERE m.ns = _ns AND m.id = _one.id)
           OR EXISTS (SELECT FROM records r WHERE r.ns = _ns AND r.id = _one.id)
              AND known(_ns, ARRAY[_one.id], _ttl) IS NOT NULL THEN
            _is_known := true;
            RETURN NEXT;
            CONTINUE;
        END IF;
        _holder := NULL;
        WHILE _key IS NOT NULL LOOP
            -- Not DO UPDATE, which locks the row also where it changes nothing: the holder could not end while the
            -- caller's transaction is open.
            INSERT INTO uniques (ns, key, id, held_until) VALUES (_ns, _key, _one.id, _until)
            ON CONFLICT (ns, key) DO NOTHING;
            EXIT WHEN FOUND;
            UPDATE uniques u SET id = _one.id, held_until = _until
            WHERE u.ns = _ns AND u.key = _key AND u.held_until <= _now;
            EXIT WHEN FOUND;
            SELECT u.id INTO _holder FROM uniques u WHERE u.ns = _ns AND u.key = _key;
            CONTINUE WHEN NOT FOUND;  -- the holder ended between the two; try again
            EXIT WHEN NOT EXISTS (
                SELECT FROM records r WHERE r.ns = _ns AND r.id = _holder AND r.state = 'cancelled'
            );
            DELETE FROM uniques u WHERE u.ns = _ns AND u.key = _key AND u.id = _holder;  -- its work is not done
            _holder := NULL;
        END LOOP;
        IF _holder IS NULL THEN
            created := push(
                _ns, _one.id, _one.name, _one.queue, _one.priority, coalesce(_one.delay, ''),
                coalesce(_one.not_before, ''), coalesce(_one.expires_in, ''), coalesce(_one.expires_at, ''),
                coalesce(_one.visibility, ''), coalesce(_one.meta, ''), _one.body, _ttl
            ) IS NULL;
            IF _key IS NOT NULL AND NOT created THEN  -- the same id came from elsewhere meanwhile
                DELETE FROM uniques u WHERE u.ns = _ns AND u.key = _key AND u.id = _one.id;
            ELSIF _key IS NOT NULL THEN
                UPDATE messages m SET unique_key = _key WHERE m.ns = _ns AND m.id = _one.id;
            END IF;
        ELSE
            answer := _holder;
        END IF;
        _is_known := _is_known OR NOT created;
        RETURN NEXT;
    END LOOP;
    IF _is_known THEN
        PERFORM pg_logical_emit_message(true, 'stem', '');  -- whoever stored it may not have flushed it yet
    END IF;
END $$
