-- Remove these tasks of a queue from the delayed ones; return which of them were delayed.
DELETE FROM stem_delayed WHERE ns = ?1 AND queue = ?2 AND seq IN (SELECT value FROM json_each(?3)) RETURNING seq
