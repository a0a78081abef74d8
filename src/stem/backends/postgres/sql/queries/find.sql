-- Broker.find: read one task that waits or runs.
SELECT id, name, queue, priority, attempt, due_at, body FROM {s}.messages
WHERE ns = %(ns)s AND id = %(id)s
