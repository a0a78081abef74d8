-- Read the best tasks of one queue: highest priority first, then oldest push.
SELECT
    r.rank, r.seq, r.queue, t.id, t.name, t.queue, t.priority, t.attempt, t.deaths, t.visibility_timeout, t.expires_at,
    t.body
FROM stem_ready AS r
CROSS JOIN stem_tasks AS t ON t.seq = r.seq
WHERE r.ns = ? AND r.queue = ?
ORDER BY r.rank, r.seq LIMIT ?
