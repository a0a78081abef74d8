-- Broker.find: read one task that waits, is blocked or runs, or can be revived. A running task counts as due.
SELECT t.id, t.name, t.queue, t.priority, t.attempt, coalesce(
    (SELECT d.due_at FROM stem_delayed AS d WHERE d.ns = ?1 AND d.queue = t.queue AND d.seq = t.seq),
    (SELECT r.due_at FROM stem_ready AS r WHERE r.ns = ?1 AND r.queue = t.queue AND r.rank = 9 - t.priority AND r.seq = t.seq),
    b.due_at,
    t.enqueued_at
), t.body
FROM stem_tasks AS t
LEFT JOIN stem_blocked AS b ON b.seq = t.seq
WHERE t.ns = ?1 AND t.id = ?2 AND (t.finished_at IS NULL OR b.seq IS NOT NULL)
