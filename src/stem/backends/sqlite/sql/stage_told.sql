-- Staging.promote: read the new tasks for the log, in their order. ?4: whether all staged ids are new.
SELECT r.id, k.name, k.queue, k.tenant FROM beside.rows r CROSS JOIN beside.kinds k ON k.number = r.kind
WHERE k.part IN (SELECT value FROM json_each(?3)) AND (?4 OR EXISTS (SELECT 1 FROM stem_tasks WHERE seq = ?1 + r.number))
ORDER BY r.number
