-- Forget the steps of tasks whose records are deleted.
DELETE FROM stem_steps WHERE task IN (SELECT value FROM json_each(?))
