-- A task is delayed no more; by its number, where it is not known when it would be due.
DELETE FROM stem_delayed WHERE ns = ? AND queue = ? AND seq = ?
