-- Delete a letter that was replayed or dropped.
DELETE FROM stem_dead WHERE task = ?
