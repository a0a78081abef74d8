-- Only the owner's, and only while it holds.
DELETE FROM stem_locks WHERE ns = ? AND name = ? AND owner = ? AND held_until > ?
