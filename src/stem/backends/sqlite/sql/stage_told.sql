-- Staging.promote: what the log is to tell of the new tasks, in their order. ?4: whether all of them are new.
SELECT id, name, queue FROM beside.rows
WHERE part IN (SELECT value FROM json_each(?3)) AND (?4 OR EXISTS (SELECT 1 FROM stem_tasks WHERE seq = ?1 + number))
ORDER BY number
