-- Read when the next delayed task of this queue becomes due.
SELECT min(due_at) FROM stem_delayed WHERE ns = ? AND queue = ?
