-- List which of these tasks have failed and still are ended: one that was replayed tells of its end itself.
SELECT t.seq FROM json_each(?) AS wanted
CROSS JOIN stem_tasks AS t ON t.seq = wanted.value
WHERE t.state IN ('failed', 'cancelled') AND t.passes IS NULL
ORDER BY t.seq
