-- Flush all that is visible now to the disk, and to the standbys that commits wait for: it is in the write-ahead log already, and
-- this commit waits for that log. A single push that notifies as it commits does not wait, so its sender calls this, and so does
-- a reader that stores what it has read of the event log. On a standby everything visible is on disk.
SELECT CASE WHEN NOT pg_is_in_recovery() THEN pg_logical_emit_message(true, 'stem', '') END
