-- Staging.promote: add the new tasks that are not due yet as delayed ones. ?4: whether all staged ids are new.
INSERT INTO stem_delayed (ns, queue, due_at, seq)
SELECT ?1 >> 40, k.queue, coalesce(?2 + k.delay_seconds, k.due_at), ?1 + r.number
FROM beside.rows r CROSS JOIN beside.kinds k ON k.number = r.kind
WHERE k.part IN (SELECT value FROM json_each(?3)) AND coalesce(?2 + k.delay_seconds, k.due_at, ?2) > ?2
    AND (?4 OR EXISTS (SELECT 1 FROM stem_tasks WHERE seq = ?1 + r.number))
