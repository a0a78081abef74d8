-- Broker.peek: list waiting tasks: ready ones in claim order, then delayed ones by due time. Due tasks that no claim has promoted
-- yet count as ready.
WITH moment AS MATERIALIZED (
    SELECT {s}.now_seconds() AS now
), ready AS (
    (SELECT * FROM {s}.messages WHERE ns = %(ns)s AND queue = %(queue)s AND place = 0
     ORDER BY priority DESC, seq LIMIT %(limit)s)
    UNION ALL
    SELECT m.* FROM {s}.messages m, moment
    WHERE m.ns = %(ns)s AND m.queue = %(queue)s AND m.place = 1 AND m.due_at <= moment.now
), ranked AS (
    (SELECT 0 AS part, row_number() OVER (ORDER BY priority DESC, seq) AS rank, ready.* FROM ready
     ORDER BY rank LIMIT %(limit)s)
    UNION ALL
    (SELECT 1, row_number() OVER (ORDER BY due_at, seq), m.* FROM (
        SELECT m.* FROM {s}.messages m, moment
        WHERE m.ns = %(ns)s AND m.queue = %(queue)s AND m.place = 1 AND m.due_at > moment.now
        ORDER BY m.due_at, m.seq LIMIT %(limit)s
    ) m)
)
SELECT id, name, queue, priority, attempt, due_at, body FROM ranked ORDER BY part, rank LIMIT %(limit)s
