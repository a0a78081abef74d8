-- Read the steps of a task, in the order in which they came.
SELECT s.name, s.payload, s.at
FROM stem_tasks AS t CROSS JOIN stem_steps AS s ON s.task = t.seq
WHERE t.ns = ? AND t.id = ?
ORDER BY s.number
