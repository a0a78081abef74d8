-- Only the owner's, and only while it holds.
UPDATE stem_locks SET held_until = ? WHERE ns = ? AND name = ? AND owner = ? AND held_until > ?
