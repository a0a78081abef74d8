-- Staging.promote: tell whether any push of these parts is not due yet.
SELECT EXISTS (
    SELECT 1 FROM beside.kinds k
    WHERE k.part IN (SELECT value FROM json_each(?3)) AND coalesce(?2 + k.delay_seconds, k.due_at, ?2) > ?2 AND ?1
)
