-- Read what this file states of itself, by key.
SELECT value FROM stem_meta WHERE key = ?
