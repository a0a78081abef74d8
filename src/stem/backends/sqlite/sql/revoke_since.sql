-- Live marks with a higher version, lowest first.
SELECT record FROM stem_revokes
WHERE ns = ? AND version > ? AND (expires_at IS NULL OR expires_at > ?)
ORDER BY version LIMIT ?
