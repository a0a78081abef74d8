-- List which of these ids the store knows (waiting, running or ended), whether the record is past its retention, and whether
-- anybody waited for it.
SELECT
    t.seq, t.id,
    t.ended_at IS NOT NULL AND iif(t.awaited, ifnull(t.finished_at, t.ended_at), t.ended_at) <= ?3,
    t.awaited
FROM json_each(?2) AS wanted
CROSS JOIN stem_tasks AS t ON t.ns = ?1 AND t.id = wanted.value
