-- Read a join that is blocked or can be revived, as a task, and the round of its wait.
SELECT
    t.seq, t.id, t.name, t.queue, t.priority, t.state, t.attempt, t.fence, t.deaths, t.enqueued_at, t.updated_at,
    t.started_at, t.finished_at, t.heartbeat_at, t.expires_at, t.visibility_timeout, t.worker, t.unique_key,
    t.error, t.meta, t.awaited, t.joins, b.round
FROM stem_tasks AS t CROSS JOIN stem_blocked AS b ON b.seq = t.seq
WHERE t.ns = ? AND t.id = ?
