-- Broker.push if some pushes have unique keys: one after the other, because an earlier push may hold the key of a later one.
-- supersedes: which holders of the key the push takes it from, and cancels: waiting, or running as well. after, on_failure, endings
-- and intos are as in push_blocked.
-- Returns, one row per push in order, the id to ask for, whether it was created, and whom it superseded. Further rows, without an
-- answer, tell of the others: the id of a task that has ended, or a queue with new work; or why nothing was stored.
CREATE OR REPLACE FUNCTION push_keyed(
    _ns text, _ids text, _names text, _queues text, _priorities text, _delays text, _not_before text,
    _expires_in text, _expires_at text, _visibility text, _metas text, _bodies text,
    _after text, _on_failure text, _endings text, _intos text,
    _keys text, _seconds text, _supersedes text, _max_delays text, _ttl float8
) RETURNS TABLE (answer text, created boolean, superseded text, told_ended text, told_queue text, refusal text)
LANGUAGE plpgsql AS $$
DECLARE
    _now float8 := now_seconds();
    _one record;
    _holder text;
    _since float8;
    _key text;
    _taken record;
    _stored record;
    _told record;
    _awaited text[] := '{}';
    _ended text[] := '{}';
    _released text[] := '{}';
    _is_known boolean := false;
BEGIN
    FOR _one IN
        SELECT * FROM unnest(cells(_ids), cells(_names), cells(_queues), cells(_priorities), cells(_delays),
                             cells(_not_before), cells(_expires_in), cells(_expires_at), cells(_visibility),
                             cells(_metas), cells(_bodies), cells(_after), cells(_on_failure), cells(_endings), cells(_intos),
                             cells(_keys), cells(_seconds), cells(_supersedes), cells(_max_delays))
                      AS u (id, name, queue, priority, delay, not_before, expires_in, expires_at, visibility, meta, body,
                            after, on_failure, ending, into_id, key, seconds, supersedes, max_delay)
    LOOP
        answer := _one.id;
        created := false;
        superseded := NULL;
        _key := _one.key::json #>> '{}';
        IF EXISTS (SELECT FROM messages m WHERE m.ns = _ns AND m.id = _one.id)
           OR EXISTS (SELECT FROM records r WHERE r.ns = _ns AND r.id = _one.id)
              AND known(_ns, ARRAY[_one.id], _ttl) IS NOT NULL THEN
            _is_known := true;
            RETURN NEXT;
            CONTINUE;
        END IF;
        _taken := take_key(_ns, _key, _one.id, _now + _one.seconds::float8, _one.supersedes);
        _holder := _taken.holder;
        _since := _taken.since;
        IF _taken.superseded IS NOT NULL THEN
            superseded := _taken.superseded;
            _ended := _ended || superseded;
            _awaited := _awaited || superseded;
        END IF;
        IF _holder IS NOT NULL THEN
            answer := _holder;
            _is_known := true;
            RETURN NEXT;
            CONTINUE;
        END IF;
        IF _one.after IS NULL AND _one.ending IS NULL AND _one.into_id IS NULL THEN
            created := push(
                _ns, _one.id, _one.name, _one.queue, _one.priority, coalesce(_one.delay, ''),
                coalesce(_one.not_before, ''), coalesce(_one.expires_in, ''), coalesce(_one.expires_at, ''),
                coalesce(_one.visibility, ''), coalesce(_one.meta, ''), _one.body, _ttl
            ) IS NULL;
        ELSE
            _stored := push_blocked(
                _ns, _one.id, _one.name, _one.queue, _one.priority, coalesce(_one.delay, ''), coalesce(_one.not_before, ''),
                coalesce(_one.expires_in, ''), coalesce(_one.expires_at, ''), coalesce(_one.visibility, ''),
                coalesce(_one.meta, ''), _one.body, coalesce(_one.after, ''), coalesce(_one.on_failure, ''),
                coalesce(_one.ending, ''), coalesce(_one.into_id, ''), _ttl
            );
            IF _stored.refusal IS NOT NULL THEN
                RAISE EXCEPTION USING ERRCODE = 'ST001', MESSAGE = _stored.refusal;
            END IF;
            created := _stored.made IS NULL;
            _ended := _ended || coalesce(_stored.told_ended, '{}');
            _released := _released || coalesce(_stored.told_queues, '{}');
        END IF;
        _is_known := _is_known OR NOT created;
        IF _key IS NOT NULL AND NOT created THEN  -- the same id came from elsewhere meanwhile
            DELETE FROM uniques u WHERE u.ns = _ns AND u.key = _key AND u.id = _one.id;
        ELSIF _key IS NOT NULL THEN
            UPDATE messages m
            SET unique_key = _key,
                due_at = CASE WHEN m.place = 3 THEN m.due_at ELSE least(m.due_at, _since + _one.max_delay::float8) END,
                place = CASE WHEN m.place = 1 AND _since + _one.max_delay::float8 <= _now THEN 0 ELSE m.place END
            WHERE m.ns = _ns AND m.id = _one.id;
            IF NOT FOUND THEN  -- it ended at once
                PERFORM release_keys(_ns, ARRAY[_key], ARRAY[_one.id],
                                     ARRAY(SELECT r.id FROM records r
                                           WHERE r.ns = _ns AND r.id = _one.id AND r.state = 'cancelled'));
            END IF;
        END IF;
        RETURN NEXT;
    END LOOP;
    answer := NULL;
    created := NULL;
    superseded := NULL;
    IF _awaited <> '{}' THEN
        _told := carry_on(_ns, _awaited);
        _ended := _ended || _told.told_ended;
        _released := _released || _told.told_queues;
    END IF;
    FOREACH told_queue IN ARRAY _released LOOP
        RETURN NEXT;
    END LOOP;
    told_queue := NULL;
    FOREACH told_ended IN ARRAY _ended LOOP
        RETURN NEXT;
    END LOOP;
    IF _is_known THEN
        PERFORM pg_logical_emit_message(true, 'stem', '');  -- whoever stored it may not have flushed it yet
    END IF;
EXCEPTION WHEN SQLSTATE 'ST001' THEN
    answer := NULL;
    refusal := SQLERRM;
    RETURN NEXT;
END $$
