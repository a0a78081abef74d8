-- Read tasks by their numbers, in the order given.
SELECT
    t.seq, t.id, t.name, t.queue, t.priority, t.state, t.attempt, t.fence, t.deaths, t.enqueued_at, t.updated_at,
    t.started_at, t.finished_at, t.heartbeat_at, t.expires_at, t.visibility_timeout, t.worker, t.unique_key,
    t.error, t.meta, t.awaited, t.joins
FROM json_each(?) AS wanted
CROSS JOIN stem_tasks AS t ON t.seq = wanted.value
ORDER BY wanted.key
