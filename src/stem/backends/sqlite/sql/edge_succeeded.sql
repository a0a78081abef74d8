-- Count the successes of these tasks: who waits for them, how many are missing then, and how that task goes on.
SELECT e.dependent, b.missing - count(*), b.on_failure, b.delay_seconds, b.due_at
FROM json_each(?) AS ended
CROSS JOIN stem_edges AS e ON e.prerequisite = ended.value
CROSS JOIN stem_blocked AS b ON b.seq = e.dependent
WHERE e.pending = b.round
GROUP BY e.dependent
ORDER BY max(ended.key), e.dependent
