-- Which of these ids the store knows: waiting, running or ended.
SELECT id.value FROM json_each(?2) AS id
WHERE EXISTS (SELECT 1 FROM stem_tasks WHERE ns = ?1 AND stem_tasks.id = id.value)
