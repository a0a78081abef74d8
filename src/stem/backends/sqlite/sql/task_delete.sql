-- Delete the records of ended tasks; their ids can be used again.
DELETE FROM stem_tasks WHERE seq IN (SELECT value FROM json_each(?))
