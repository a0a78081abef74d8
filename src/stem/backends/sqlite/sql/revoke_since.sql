-- Read live revokes with a higher version, lowest first. SQLite stores text in a number column, and sorts it last.
SELECT version, record FROM stem_revokes
WHERE ns = ? AND version > ? AND typeof(version) = 'integer'
    AND (expires_at IS NULL OR expires_at > ?)
ORDER BY version LIMIT ?
