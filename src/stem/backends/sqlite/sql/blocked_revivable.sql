-- Remember that a task was cancelled for a failed prerequisite and can be revived.
UPDATE stem_blocked SET is_waiting = 0 WHERE seq = ?
