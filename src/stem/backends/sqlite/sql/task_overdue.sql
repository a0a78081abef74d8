-- Read the tasks whose lease has expired, oldest first.
SELECT
    t.seq, t.id, t.name, t.queue, t.priority, t.state, t.attempt, l.fence, t.deaths, t.enqueued_at, t.updated_at,
    t.started_at, t.finished_at, t.heartbeat_at, t.expires_at, t.visibility_timeout, t.worker, t.unique_key,
    t.error, t.meta, t.awaited, t.joins
FROM (
    SELECT seq, fence, leased_until FROM stem_leases
    WHERE seq BETWEEN ?1 AND ?2 AND leased_until <= ?3
    ORDER BY leased_until, seq LIMIT ?4
) AS l
CROSS JOIN stem_tasks AS t ON t.seq = l.seq
ORDER BY l.leased_until, l.seq
