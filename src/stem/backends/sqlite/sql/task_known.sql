-- List which of these ids the store knows (waiting, running or ended), and whether the record is past its retention.
SELECT t.seq, t.id, ifnull(t.ended_at <= ?3, 0) FROM json_each(?2) AS wanted
CROSS JOIN stem_tasks AS t ON t.ns = ?1 AND t.id = wanted.value
