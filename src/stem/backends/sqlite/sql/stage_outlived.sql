-- Staging.promote: delete records past their retention whose ids are staged, so that the ids can be used again.
DELETE FROM stem_tasks WHERE ns = ?1 >> 40 AND ended_at <= ?3 AND id IN (
    SELECT r.id FROM beside.rows r CROSS JOIN beside.kinds k ON k.number = r.kind
    WHERE k.part IN (SELECT value FROM json_each(?2))
)
