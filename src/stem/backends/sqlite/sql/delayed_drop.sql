-- These tasks of a queue are delayed no more; says which of them were.
DELETE FROM stem_delayed WHERE ns = ?1 AND queue = ?2 AND seq IN (SELECT value FROM json_each(?3)) RETURNING seq
