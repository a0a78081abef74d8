-- Broker.wait: tell whether a task is ready or due now, and in how many seconds the next will be due. Reads as a claim does,
-- queue by queue in the order of the index, so that no planner prefers to read the whole table. $1: namespace, $2: queues.
SELECT
    EXISTS (SELECT FROM unnest($2::text[]) AS q (name) CROSS JOIN LATERAL (
        SELECT m.seq FROM {s}.messages m WHERE m.ns = $1 AND m.queue = q.name AND m.place = 0
        ORDER BY m.priority DESC, m.seq LIMIT 1
    ) next),
    (SELECT min(next.due_at) FROM unnest($2::text[]) AS q (name) CROSS JOIN LATERAL (
        SELECT m.due_at FROM {s}.messages m WHERE m.ns = $1 AND m.queue = q.name AND m.place = 1
        ORDER BY m.due_at LIMIT 1
    ) next) - {s}.now_seconds()
