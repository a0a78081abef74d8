-- Read one dead letter by its task's id.
SELECT d.seq, t.id, t.name, t.queue, t.attempt, d.reason, t.error, d.meta, d.dead_at, t.body, t.worker, t.meta
FROM stem_tasks AS t
CROSS JOIN stem_dead AS d ON d.task = t.seq
WHERE t.ns = ? AND t.id = ?
