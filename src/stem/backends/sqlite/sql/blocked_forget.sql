-- Forget the waits of tasks whose records are deleted.
DELETE FROM stem_blocked WHERE seq IN (SELECT value FROM json_each(?))
