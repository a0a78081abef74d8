-- Read who waits for these failed tasks and runs all the same, or only then.
SELECT e.prerequisite, e.dependent, b.missing, b.on_failure, b.delay_seconds, b.due_at
FROM json_each(?) AS ended
CROSS JOIN stem_edges AS e ON e.prerequisite = ended.value
CROSS JOIN stem_blocked AS b ON b.seq = e.dependent
WHERE e.pending = b.round AND b.on_failure <> 'cancel'
ORDER BY ended.key, e.dependent
