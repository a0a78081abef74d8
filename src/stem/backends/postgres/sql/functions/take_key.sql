-- Part of push_keyed: take a unique key for a task that is about to be stored, or return its holder, who keeps it. since: when the
-- series of pushes began. A push that supersedes takes it in any case; it returns the holder that it has cancelled.
CREATE OR REPLACE FUNCTION take_key(
    _ns text, _key text, _id text, _until float8, _supersedes text, OUT holder text, OUT since float8, OUT superseded text
) LANGUAGE plpgsql AS $$
DECLARE
    _now float8 := now_seconds();
    _series float8;
    _row tid;
    _place smallint;
    _fence bigint;
BEGIN
    since := _now;
    WHILE _key IS NOT NULL LOOP
        -- Not DO UPDATE, which locks the row also where it changes nothing: the holder could not end while the
        -- caller's transaction is open.
        INSERT INTO uniques (ns, key, id, held_until, since) VALUES (_ns, _key, _id, _until, take_key.since)
        ON CONFLICT (ns, key) DO NOTHING;
        EXIT WHEN FOUND;
        UPDATE uniques u SET id = _id, held_until = _until, since = _now WHERE u.ns = _ns AND u.key = _key AND u.held_until <= _now;
        EXIT WHEN FOUND;
        SELECT u.id INTO holder FROM uniques u WHERE u.ns = _ns AND u.key = _key;
        CONTINUE WHEN NOT FOUND;  -- the holder ended between the two; try again
        IF _supersedes IS NULL THEN
            EXIT WHEN NOT EXISTS (SELECT FROM records r WHERE r.ns = _ns AND r.id = holder AND r.state = 'cancelled');
            DELETE FROM uniques u WHERE u.ns = _ns AND u.key = _key AND u.id = holder;  -- its work is not done
        ELSE
            -- The task before its key, as those lock them who end it
            SELECT m.ctid, m.place, m.fence INTO _row, _place, _fence FROM messages m WHERE m.ns = _ns AND m.id = holder FOR UPDATE;
            SELECT u.since INTO _series FROM uniques u WHERE u.ns = _ns AND u.key = _key AND u.id = holder FOR UPDATE;
            IF NOT FOUND THEN
                CONTINUE;
            ELSIF _row IS NOT NULL AND (_place <> 2 OR _supersedes = 'running') THEN
                PERFORM cancel_rows(_ns, ARRAY[_row], 'superseded');
                superseded := holder;
                since := CASE WHEN _fence > 0 THEN _now ELSE coalesce(_series, _now) END;  -- a claim ends the series
            END IF;
            DELETE FROM uniques u WHERE u.ns = _ns AND u.key = _key AND u.id = holder;
        END IF;
        holder := NULL;
    END LOOP;
END $$
