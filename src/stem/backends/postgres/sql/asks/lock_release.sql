-- Locks.release: only by its owner, only before it ends.
DELETE FROM {s}.locks
WHERE ns = %(ns)s AND name = %(name)s AND owner = %(owner)s AND held_until > {s}.now_seconds() RETURNING 1
