-- Who holds the lock now, and with which number.
SELECT owner, fence FROM stem_locks WHERE ns = ? AND name = ? AND held_until > ?
