-- Read the lines of a task after a position.
SELECT position, body FROM stem_task_logs WHERE ns = ? AND task_id = ? AND position > ? ORDER BY position LIMIT ?
