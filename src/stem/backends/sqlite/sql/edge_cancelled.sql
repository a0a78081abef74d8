-- Read a bounded number of those who wait for these failed tasks and are to be cancelled for that.
SELECT ended.key, e.dependent
FROM json_each(?) AS ended
CROSS JOIN stem_edges AS e ON e.prerequisite = ended.value
CROSS JOIN stem_blocked AS b ON b.seq = e.dependent
WHERE e.pending = b.round AND b.on_failure = 'cancel' AND b.is_waiting = 1
ORDER BY ended.key, e.dependent LIMIT ?
