-- TaskLogs.read: the lines of a task after a position.
SELECT position, body FROM {s}.task_logs
WHERE ns = %(ns)s AND id = %(id)s AND position > %(after)s ORDER BY position LIMIT %(limit)s
