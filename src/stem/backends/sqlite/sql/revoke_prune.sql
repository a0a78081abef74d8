-- Delete exactly the expired revokes.
DELETE FROM stem_revokes WHERE ns = ? AND expires_at <= ?
