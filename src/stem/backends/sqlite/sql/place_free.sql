-- Limiter.free: give up the holder's place, if it has one.
DELETE FROM stem_places WHERE ns = ? AND key = ? AND holder = ?
