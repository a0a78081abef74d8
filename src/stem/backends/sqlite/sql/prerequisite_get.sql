-- Read tasks that others shall wait for, and whether their records are past their retention.
SELECT
    t.seq, t.id, t.name, t.state, t.error, t.state = 'succeeded' OR t.passes IS NOT NULL, t.awaited,
    t.ended_at IS NOT NULL AND iif(t.awaited, ifnull(t.finished_at, t.ended_at), t.ended_at) <= ?3
FROM json_each(?2) AS wanted
CROSS JOIN stem_tasks AS t ON t.ns = ?1 AND t.id = wanted.value
