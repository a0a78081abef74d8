-- Forget who waited for these tasks.
DELETE FROM stem_edges WHERE prerequisite IN (SELECT value FROM json_each(?))
