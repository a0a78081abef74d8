-- Read the delayed tasks of a queue that have become due, earliest first.
SELECT d.ns, d.queue, 9 - t.priority, d.seq, d.due_at FROM (
    SELECT ns, queue, due_at, seq FROM stem_delayed
    WHERE ns = ? AND queue = ? AND due_at <= ? ORDER BY due_at, seq LIMIT ?
) AS d
CROSS JOIN stem_tasks AS t ON t.seq = d.seq
