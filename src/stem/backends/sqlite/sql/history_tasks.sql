-- History.chunks and History.packed, who add what they want of it: records from one place to another; a filter that is NULL
-- lets all pass. Moments as whole microseconds, rounded by a sum, for a function call takes as long as a column. What the
-- reader does not ask for, SQLite does not look at.
SELECT
    seq, id, name, queue, state, attempt, priority, worker, CAST(error AS TEXT) AS error,
    CAST(enqueued_at * 1000000 + 0.5 AS INTEGER) AS enqueued_at,
    CAST(started_at * 1000000 + 0.5 AS INTEGER) AS started_at,
    CAST(finished_at * 1000000 + 0.5 AS INTEGER) AS finished_at,
    CAST(heartbeat_at * 1000000 + 0.5 AS INTEGER) AS heartbeat_at,
    CAST(updated_at * 1000000 + 0.5 AS INTEGER) AS updated_at,
    coalesce(CAST(meta AS TEXT), '{}') AS meta, CAST(payload AS TEXT) AS payload
FROM stem_tasks AS t
WHERE
    t.seq > :after AND t.seq <= :upto
    AND (:state IS NULL OR t.state = :state)
    AND (:queue IS NULL OR t.queue = :queue)
    AND (:name IS NULL OR t.name = :name)
    AND (:since IS NULL OR t.enqueued_at >= :since)
    AND (:until IS NULL OR t.enqueued_at < :until)
