-- Locks that nobody holds any more.
DELETE FROM stem_locks WHERE ns = ? AND held_until <= ?
