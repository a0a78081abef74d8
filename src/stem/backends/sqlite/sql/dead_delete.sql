-- The letter is gone: replayed, or dropped.
DELETE FROM stem_dead WHERE task = ?
