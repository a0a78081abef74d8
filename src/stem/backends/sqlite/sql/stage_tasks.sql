-- Staging.promote: make the pushes of these parts tasks, in their order; known ids are left alone.
INSERT OR IGNORE INTO stem_tasks (
    seq, ns, id, name, queue, priority, state, attempt, fence, deaths, enqueued_at, updated_at,
    expires_at, visibility_timeout, meta, body
)
SELECT
    ?1 + r.number, ?1 >> 40, r.id, k.name, k.queue, k.priority, 'queued', 0, 0, 0, ?2, ?2,
    coalesce(?2 + k.lifetime_seconds, k.expires_at), k.visibility_timeout, CAST(k.meta AS BLOB),
    CAST(iif(k.behind IS NULL, r.text, '{"id":"' || r.id || k.between_id || r.text || k.behind) AS BLOB)
FROM beside.rows r CROSS JOIN beside.kinds k ON k.number = r.kind
WHERE k.part IN (SELECT value FROM json_each(?3)) ORDER BY r.number
