-- Staging.promote: add the new tasks that are due to their queues. ?4: whether all staged ids are new.
INSERT INTO stem_ready (ns, queue, rank, seq, due_at)
SELECT ?1 >> 40, k.queue, 9 - k.priority, ?1 + r.number, coalesce(?2 + k.delay_seconds, k.due_at, ?2)
FROM beside.rows r CROSS JOIN beside.kinds k ON k.number = r.kind
WHERE k.part IN (SELECT value FROM json_each(?3)) AND coalesce(?2 + k.delay_seconds, k.due_at, ?2) <= ?2
    AND (?4 OR EXISTS (SELECT 1 FROM stem_tasks WHERE seq = ?1 + r.number))
ORDER BY r.number
