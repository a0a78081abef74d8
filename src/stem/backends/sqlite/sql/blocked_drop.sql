-- End the wait of a task, if it is blocked.
DELETE FROM stem_blocked WHERE seq = ? AND is_waiting = 1
