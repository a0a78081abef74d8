-- End the wait of a task.
DELETE FROM stem_blocked WHERE seq = ?
