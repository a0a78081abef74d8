-- Read all waiting tasks of a queue, oldest push first, and which of them are blocked.
SELECT seq, due_at, 0 FROM stem_ready WHERE ns = ?1 AND queue = ?2
UNION ALL
SELECT seq, due_at, 0 FROM stem_delayed WHERE ns = ?1 AND queue = ?2
UNION ALL
SELECT seq, due_at, 1 FROM stem_blocked WHERE ns = ?1 AND queue = ?2 AND is_waiting = 1
ORDER BY 1
