-- Live marks with a higher version, lowest first. SQLite takes text for a number, and sorts it last.
SELECT version, record FROM stem_revokes
WHERE ns = ? AND version > ? AND typeof(version) = 'integer'
    AND (expires_at IS NULL OR expires_at > ?)
ORDER BY version LIMIT ?
