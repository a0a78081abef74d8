-- Write the meta of a task, which may have ended.
UPDATE stem_tasks SET meta = ? WHERE seq = ?
