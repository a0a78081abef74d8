-- Read waiting tasks without changing them: ready ones in claim order, then delayed ones by due time.
SELECT t.id, t.name, t.queue, t.priority, t.attempt, w.due_at, t.body FROM (
    SELECT * FROM (
        SELECT 0 AS later, rank, 0 AS due, seq, due_at FROM stem_ready
        WHERE ns = ?1 AND queue = ?2 ORDER BY rank, seq LIMIT ?4
    )
    UNION ALL
    SELECT 0, 9 - t.priority, 0, d.seq, d.due_at FROM stem_delayed AS d CROSS JOIN stem_tasks AS t ON t.seq = d.seq
    WHERE d.ns = ?1 AND d.queue = ?2 AND d.due_at <= ?3
    UNION ALL
    SELECT * FROM (
        SELECT 1, 0, due_at, seq, due_at FROM stem_delayed
        WHERE ns = ?1 AND queue = ?2 AND due_at > ?3 ORDER BY due_at, seq LIMIT ?4
    )
    ORDER BY 1, 2, 3, 4 LIMIT ?4
) AS w
CROSS JOIN stem_tasks AS t ON t.seq = w.seq
ORDER BY w.later, w.rank, w.due, w.seq
