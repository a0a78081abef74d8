-- Exactly the expired.
DELETE FROM stem_revokes WHERE ns = ? AND expires_at <= ?
