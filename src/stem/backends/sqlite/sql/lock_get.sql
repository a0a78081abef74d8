-- Read who holds the lock now, and its fencing number.
SELECT owner, fence FROM stem_locks WHERE ns = ? AND name = ? AND held_until > ?
