-- Release a lock, if the owner still holds it.
DELETE FROM stem_locks WHERE ns = ? AND name = ? AND owner = ? AND held_until > ?
