-- Forget what tasks waited for whose records are deleted.
DELETE FROM stem_event_waits WHERE task IN (SELECT value FROM json_each(?))
