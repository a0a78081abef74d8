-- Locks.renew: extend the lock, if the owner still holds it.
UPDATE {s}.locks SET held_until = {s}.now_seconds() + %(ttl)s
WHERE ns = %(ns)s AND name = %(name)s AND owner = %(owner)s AND held_until > {s}.now_seconds() RETURNING 1
