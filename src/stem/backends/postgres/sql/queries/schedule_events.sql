-- Schedules.write: tell of the tasks that were created, after their `enqueued` and in the same transaction.
INSERT INTO {s}.events (ns, at, enqueued_at, attempt, kind, task_id, name, queue, data)
SELECT m.ns, m.enqueued_at, m.enqueued_at, 0, 'scheduled', m.id, m.name, m.queue, u.data
FROM unnest(%(ids)s::text[], %(data)s::text[]) WITH ORDINALITY AS u (id, data, ord)
JOIN {s}.messages m ON m.ns = %(ns)s AND m.id = u.id ORDER BY u.ord
RETURNING 1
