-- Staging.promote: the parts' pushes become tasks, in their order; what is known is left alone.
INSERT OR IGNORE INTO stem_tasks (
    seq, ns, id, name, queue, priority, state, attempt, fence, deaths, enqueued_at, updated_at,
    expires_at, visibility_timeout, meta, body
)
SELECT
    ?1 + number, ?1 >> 40, id, name, queue, priority, 'queued', 0, 0, 0, ?2, ?2,
    coalesce(?2 + lifetime_seconds, expires_at), visibility_timeout, CAST(meta AS BLOB), CAST(body AS BLOB)
FROM beside.rows WHERE part IN (SELECT value FROM json_each(?3)) ORDER BY number
