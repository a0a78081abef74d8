-- Staging.promote: read the records past their retention whose ids are staged, and whether anybody waited for them.
SELECT t.seq, t.awaited
FROM beside.rows r CROSS JOIN beside.kinds k ON k.number = r.kind
CROSS JOIN stem_tasks AS t ON t.ns = ?1 >> 40 AND t.id = r.id
WHERE k.part IN (SELECT value FROM json_each(?2))
    AND t.ended_at IS NOT NULL AND iif(t.awaited, ifnull(t.finished_at, t.ended_at), t.ended_at) <= ?3
