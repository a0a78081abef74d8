-- Limiter.hold: renew the holder's place, or take a free one, in order. Returns for each place whether it is held.
-- Keys are locked in order, so that no two calls wait for each other. A renewal lost in a crash of the server is repeated
-- before the place expires, so the commit need not be flushed.
CREATE OR REPLACE FUNCTION hold_places(_ns text, _keys text, _holders text, _limits text, _ttls text)
RETURNS boolean[] LANGUAGE plpgsql AS $$
DECLARE
    who text[] := cells(_holders);
    limits bigint[] := cells(_limits)::bigint[];
    ttls float8[] := cells(_ttls)::float8[];
    answers boolean[] := array_fill(false, ARRAY[array_length(who, 1)]);
    wanted record;
    _now float8;
    _place integer;
    _live bigint;
    _ttl float8;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    FOR wanted IN
        SELECT u.key, array_agg(u.place::integer ORDER BY u.place) AS places
        FROM unnest(cells(_keys)) WITH ORDINALITY AS u (key, place)
        GROUP BY u.key ORDER BY u.key COLLATE "C"
    LOOP
        PERFORM lock_places(_ns, wanted.key);
        _now := now_seconds();
        _live := NULL;
        FOREACH _place IN ARRAY wanted.places LOOP
            UPDATE holders h SET expires_at = _now + ttls[_place]
            WHERE h.ns = _ns AND h.key = wanted.key AND h.holder = who[_place] AND h.expires_at > _now;
            answers[_place] := FOUND;
            CONTINUE WHEN FOUND;
            IF _live IS NULL THEN -- counted once, and only if somebody is new
                SELECT count(*) INTO _live FROM holders h WHERE h.ns = _ns AND h.key = wanted.key AND h.expires_at > _now;
            END IF;
            CONTINUE WHEN _live >= limits[_place];
            INSERT INTO holders (ns, key, holder, expires_at) VALUES (_ns, wanted.key, who[_place], _now + ttls[_place])
            ON CONFLICT (ns, key, holder) DO UPDATE SET expires_at = excluded.expires_at;
            answers[_place] := true;
            _live := _live + 1;
        END LOOP;
        -- It must stay as long as any holder, and moves in steps, so that most renewals leave it alone.
        _ttl := (SELECT max(ttls[place]) FROM unnest(wanted.places) AS place);
        UPDATE places p SET expires_at = _now + 2 * _ttl
        WHERE p.ns = _ns AND p.key = wanted.key AND p.expires_at < _now + _ttl;
    END LOOP;
    RETURN answers;
END $$
