-- Renew a lock, if the owner still holds it.
UPDATE stem_locks SET held_until = ? WHERE ns = ? AND name = ? AND owner = ? AND held_until > ?
