-- Locks.owner: who holds it now.
SELECT owner FROM {s}.locks WHERE ns = %(ns)s AND name = %(name)s AND held_until > {s}.now_seconds()
