-- Out of the queue, from wherever it stands.
DELETE FROM stem_ready WHERE ns = ? AND queue = ? AND rank = ? AND seq = ?
