-- Locks.owner: read who holds the lock now.
SELECT owner FROM {s}.locks WHERE ns = %(ns)s AND name = %(name)s AND held_until > {s}.now_seconds()
