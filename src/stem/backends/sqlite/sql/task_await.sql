-- Mark tasks that others wait for.
UPDATE stem_tasks SET awaited = 1 WHERE seq IN (SELECT value FROM json_each(?))
