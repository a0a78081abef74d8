-- Limiter.free: the holder's own place, if it has one.
DELETE FROM stem_places WHERE ns = ? AND key = ? AND holder = ?
