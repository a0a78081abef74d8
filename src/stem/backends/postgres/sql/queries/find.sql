-- Broker.find: read one task that waits or runs, or was cancelled and can be revived.
SELECT id, name, queue, priority, attempt, due_at, body FROM {s}.messages
WHERE ns = %(ns)s AND id = %(id)s
UNION ALL
SELECT r.id, r.name, r.queue, r.priority, r.attempt, v.due_at, v.body
FROM {s}.revivable v JOIN {s}.records r ON r.id = v.id AND r.ns = v.ns
WHERE v.ns = %(ns)s AND v.id = %(id)s
