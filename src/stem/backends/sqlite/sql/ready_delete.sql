-- Remove a task from the ready ones.
DELETE FROM stem_ready WHERE ns = ? AND queue = ? AND rank = ? AND seq = ?
