-- Out of the delayed.
DELETE FROM stem_delayed WHERE ns = ? AND queue = ? AND due_at = ? AND seq = ?
