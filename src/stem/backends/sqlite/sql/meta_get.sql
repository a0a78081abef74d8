-- What this file says of itself.
SELECT value FROM stem_meta WHERE key = ?
