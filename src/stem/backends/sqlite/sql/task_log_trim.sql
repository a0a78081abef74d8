-- Keep the newest lines of a task.
DELETE FROM stem_task_logs WHERE ns = ?1 AND task_id = ?2 AND position <= (
    SELECT position FROM stem_task_logs WHERE ns = ?1 AND task_id = ?2 ORDER BY position DESC LIMIT 1 OFFSET ?3
)
