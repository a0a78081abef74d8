-- Broker.wait: is anything ready or due now, and in how many seconds will the next be due?
SELECT
    EXISTS (SELECT FROM {s}.messages m WHERE m.ns = %(ns)s AND m.queue = ANY (%(queues)s) AND m.place = 0),
    (SELECT min(next.due_at) FROM unnest(%(queues)s::text[]) AS q (name) CROSS JOIN LATERAL (
        SELECT m.due_at FROM {s}.messages m WHERE m.ns = %(ns)s AND m.queue = q.name AND m.place = 1
        ORDER BY m.due_at LIMIT 1
    ) next) - {s}.now_seconds()
