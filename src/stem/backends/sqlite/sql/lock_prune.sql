-- Delete expired locks.
DELETE FROM stem_locks WHERE ns = ? AND held_until <= ?
