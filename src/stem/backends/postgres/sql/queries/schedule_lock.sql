-- Schedules.write: read one entry, and let nobody else write it before this transaction ends.
SELECT id, entry, state, revision FROM {s}.schedules WHERE ns = %(ns)s AND id = %(id)s FOR UPDATE
