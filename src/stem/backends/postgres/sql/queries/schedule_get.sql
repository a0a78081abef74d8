-- Schedules.get: read one entry.
SELECT id, entry, state, revision FROM {s}.schedules WHERE ns = %(ns)s AND id = %(id)s
