-- History.chunks and History.packed, which add the columns they want: records from one number to another. A filter that is NULL
-- matches all. Moments are whole microseconds, rounded by an addition, because a function call takes as long as a column.
-- SQLite does not compute columns that the reader does not select.
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
