-- Staging.promote: count the pushes of these parts that lie in runs.
SELECT coalesce(sum(s.rows), 0) FROM beside.runs s JOIN beside.kinds k ON k.number = s.kind
WHERE k.part IN (SELECT value FROM json_each(?3)) AND ?1 AND ?2
