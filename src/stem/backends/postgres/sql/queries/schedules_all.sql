-- Schedules.all, Schedules.broken: read all entries, by id.
SELECT id, entry, state, revision FROM {s}.schedules WHERE ns = %(ns)s ORDER BY id
