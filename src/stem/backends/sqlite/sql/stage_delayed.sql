-- Staging.promote: the others wait for their time. ?4: whether all of them are new.
INSERT INTO stem_delayed (ns, queue, due_at, seq)
SELECT ?1 >> 40, queue, coalesce(?2 + delay_seconds, due_at), ?1 + number
FROM beside.rows
WHERE part IN (SELECT value FROM json_each(?3)) AND coalesce(?2 + delay_seconds, due_at, ?2) > ?2
    AND (?4 OR EXISTS (SELECT 1 FROM stem_tasks WHERE seq = ?1 + number))
