-- What is visible now is on disk when this returns, and on the standbys that commits wait for: it was written to the log before,
-- and this commit waits for the log. A push that is told of as it commits does not, so whoever sent it, and whoever keeps what
-- he has read of the event log, asks for this. On a standby there is nothing to see that is not on disk.
SELECT CASE WHEN NOT pg_is_in_recovery() THEN pg_logical_emit_message(true, 'stem', '') END
