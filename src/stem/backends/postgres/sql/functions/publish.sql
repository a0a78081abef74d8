-- Mail.send and Mail.publish: store a message. The numbers of a channel become visible in order, one writer at a time, so that
-- a subscriber's cursor skips none. Messages are short-lived, so their commit need not be flushed.
CREATE OR REPLACE FUNCTION publish(_ns text, _is_channel boolean, _name text, _message bytea, _seconds float8)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM pg_advisory_xact_lock(hashtextextended('stem.mail/' || _ns || '/' || _name, _is_channel::integer));
    INSERT INTO mail (ns, is_channel, name, number, expires_at, message)
    VALUES (_ns, _is_channel, _name, nextval('mail_number'), now_seconds() + _seconds, _message);
END $$
