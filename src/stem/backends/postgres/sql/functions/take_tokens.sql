-- Limiter.take: take one token from each bucket, in order; core/decisions/ratelimit.py explains how and why. Returns for each bucket 0, or
-- the seconds to wait.
-- Keys are locked in order, so that no two calls wait for each other. A crash of the server loses at most a few tokens, so the
-- commit need not be flushed.
CREATE OR REPLACE FUNCTION take_tokens(_ns text, _keys text, _paces text, _bursts text)
RETURNS float8[] LANGUAGE plpgsql AS $$
DECLARE
    paces float8[] := cells(_paces)::float8[];
    bursts float8[] := cells(_bursts)::float8[];
    answers float8[] := array_fill(0::float8, ARRAY[array_length(paces, 1)]);
    wanted record;
    bucket buckets%ROWTYPE;
    _now float8;
    _place integer;
    _pace float8;
    _burst float8;
    _horizon float8;
    _passed float8;
    _tokens float8;
    _promised float8;
    _missing float8;
    _full_at float8;
    _is_changed boolean;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    FOR wanted IN
        SELECT u.key, array_agg(u.place::integer ORDER BY u.place) AS places
        FROM unnest(cells(_keys)) WITH ORDINALITY AS u (key, place)
        GROUP BY u.key ORDER BY u.key COLLATE "C"
    LOOP
        _place := wanted.places[1];
        bucket := locked_bucket(_ns, wanted.key, paces[_place], bursts[_place]);
        _now := now_seconds();
        _is_changed := bucket.updated_at > _now;
        bucket.updated_at := least(bucket.updated_at, _now); -- a clock was set back: go on from here
        FOREACH _place IN ARRAY wanted.places LOOP
            _pace := paces[_place];
            _burst := bursts[_place];
            _horizon := greatest(60, 2 * _pace);
            _passed := _now - bucket.updated_at;
            _promised := CASE WHEN bucket.pace_seconds = _pace THEN bucket.promised_seconds ELSE 0 END;
            _tokens := least(_burst + CASE WHEN _promised > 0 THEN 0.5 ELSE 0 END, bucket.tokens + _passed / _pace);
            _promised := greatest(0, _promised - _passed);
            _missing := (1 - _tokens) * _pace;
            IF _missing <= 1e-6 THEN
                _tokens := _tokens - 1;
            ELSE
                answers[_place] := greatest(_promised, _missing);
                IF answers[_place] > _horizon THEN
                    answers[_place] := _horizon * (1 + random()) / 2;
                    CONTINUE; -- the level stays as it was
                END IF;
                _promised := answers[_place] + _pace;
            END IF;
            _is_changed := true;
            bucket.tokens := _tokens;
            bucket.promised_seconds := _promised;
            bucket.pace_seconds := _pace;
            bucket.updated_at := _now;
            _full_at := _now + greatest(_promised, (_burst - _tokens) * _pace);
            IF bucket.expires_at < _full_at THEN
                bucket.expires_at := _full_at + 1;
            END IF;
        END LOOP;
        IF _is_changed THEN
            UPDATE buckets b
            SET tokens = bucket.tokens, promised_seconds = bucket.promised_seconds, pace_seconds = bucket.pace_seconds,
                updated_at = bucket.updated_at, expires_at = bucket.expires_at
            WHERE b.ns = _ns AND b.key = wanted.key;
        END IF;
    END LOOP;
    RETURN answers;
END $$
