-- Read records, newest enqueued first. A filter that is NULL matches all.
SELECT
    t.seq, t.id, t.name, t.queue, t.state, t.attempt, coalesce(l.fence, t.fence), t.priority, t.payload, t.error, t.meta,
    t.worker, t.enqueued_at, t.started_at, t.finished_at, t.heartbeat_at, t.updated_at
FROM stem_tasks AS t
LEFT JOIN stem_leases AS l ON l.seq = t.seq
WHERE
    t.seq BETWEEN :first AND :last
    AND (:state IS NULL OR t.state = :state)
    AND (:queue IS NULL OR t.queue = :queue)
    AND (:name IS NULL OR t.name = :name)
    AND (:since IS NULL OR t.enqueued_at >= :since)
    AND (:until IS NULL OR t.enqueued_at < :until)
    AND (t.ended_at IS NULL OR iif(t.awaited, t.finished_at, t.ended_at) > :horizon)
    AND (
        :meta IS NULL OR (:meta_text IS NULL OR instr(t.meta, :meta_text) > 0) AND NOT EXISTS (
            SELECT 1 FROM json_each(:meta) AS wanted WHERE NOT EXISTS (
                SELECT 1 FROM json_each(CAST(t.meta AS TEXT)) AS noted
                WHERE noted.key = wanted.key AND noted.type = wanted.type AND noted.value IS wanted.value
            )
        )
    )
ORDER BY t.seq DESC LIMIT :limit
