-- Staging.promote: those of the new tasks that are due wait to be claimed. ?4: whether all of them are new.
INSERT INTO stem_ready (ns, queue, rank, seq, due_at)
SELECT ?1 >> 40, queue, 9 - priority, ?1 + number, coalesce(?2 + delay_seconds, due_at, ?2)
FROM beside.rows
WHERE part IN (SELECT value FROM json_each(?3)) AND coalesce(?2 + delay_seconds, due_at, ?2) <= ?2
    AND (?4 OR EXISTS (SELECT 1 FROM stem_tasks WHERE seq = ?1 + number))
ORDER BY number
