-- Remove a task from the delayed ones.
DELETE FROM stem_delayed WHERE ns = ? AND queue = ? AND due_at = ? AND seq = ?
