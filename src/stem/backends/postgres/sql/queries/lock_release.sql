-- Locks.release: delete the lock, if the owner still holds it.
DELETE FROM {s}.locks
WHERE ns = %(ns)s AND name = %(name)s AND owner = %(owner)s AND held_until > {s}.now_seconds() RETURNING 1
