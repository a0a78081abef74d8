-- Schedules.write of an entry that schedule_lock has locked: replace it; return its new revision.
UPDATE {s}.schedules SET revision = DEFAULT, due_at = %(due_at)s, entry = %(entry)s, state = %(state)s
WHERE ns = %(ns)s AND id = %(id)s RETURNING revision
