-- Part of carry_on and block: return the error of a task that is cancelled because this prerequisite failed; the first cause is
-- passed on. core/prerequisites.py says the same. An error that cannot be read (it may hold the character 0) is left out.
CREATE OR REPLACE FUNCTION prerequisite_error(_id text, _name text, _state text, _error text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    _how text := CASE _state WHEN 'failed' THEN 'failed' ELSE 'was cancelled' END;
    _said text := 'no reason recorded';
BEGIN
    BEGIN
        IF _state = 'cancelled' AND _error::json ->> 'type' = 'PrerequisiteFailed' THEN
            RETURN _error;
        END IF;
        _said := coalesce(_error::json ->> 'type' || ': ' || left(_error::json ->> 'message', 300), _said);
    EXCEPTION WHEN data_exception THEN
        _said := 'an error that cannot be read';
    END;
    RETURN json_build_object(
        'type', 'PrerequisiteFailed', 'message', format('%s (%s) %s: %s', _id, _name, _how, _said), 'stack', '', 'retryable', false
    )::text;
END $$
