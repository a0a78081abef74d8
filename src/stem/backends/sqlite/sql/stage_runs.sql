-- Staging.promote: what the log is to tell of the new tasks, in their order, if all are new and lie in runs.
SELECT s.rows, s.ids, k.name, k.queue FROM beside.runs s CROSS JOIN beside.kinds k ON k.number = s.kind
WHERE k.part IN (SELECT value FROM json_each(?3)) AND ?1 AND ?2
ORDER BY s.number
