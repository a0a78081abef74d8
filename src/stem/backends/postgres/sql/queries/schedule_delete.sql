-- Schedules.delete: delete the entry; a row if there was one.
DELETE FROM {s}.schedules WHERE ns = %(ns)s AND id = %(id)s RETURNING 1
