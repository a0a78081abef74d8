-- Staging.promote: read the new tasks for the log, in their order, if all are new and lie in runs.
SELECT s.rows, s.ids, k.name, k.queue, k.tenant FROM beside.runs s CROSS JOIN beside.kinds k ON k.number = s.kind
WHERE k.part IN (SELECT value FROM json_each(?3)) AND ?1 AND ?2
ORDER BY s.number
