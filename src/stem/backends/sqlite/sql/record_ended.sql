-- List which of these ids have ended.
SELECT t.id FROM json_each(?2) AS wanted
CROSS JOIN stem_tasks AS t ON t.ns = ?1 AND t.id = wanted.value
WHERE t.state IN ('succeeded', 'failed', 'cancelled')
    AND (t.ended_at IS NULL OR iif(t.awaited, t.finished_at, t.ended_at) > ?3)
