-- Read all waiting tasks of a queue, oldest push first.
SELECT seq, due_at FROM stem_ready WHERE ns = ?1 AND queue = ?2
UNION ALL
SELECT seq, due_at FROM stem_delayed WHERE ns = ?1 AND queue = ?2
ORDER BY 1
