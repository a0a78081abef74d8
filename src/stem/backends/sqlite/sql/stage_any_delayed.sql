-- Staging.promote: whether any of the parts' pushes is not due yet.
SELECT EXISTS (
    SELECT 1 FROM beside.kinds k
    WHERE k.part IN (SELECT value FROM json_each(?3)) AND coalesce(?2 + k.delay_seconds, k.due_at, ?2) > ?2 AND ?1
)
