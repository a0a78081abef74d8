-- Keep the record of a dropped letter without its envelope; retention counts for it again, from the end of the task.
UPDATE stem_tasks SET body = NULL, ended_at = finished_at WHERE seq = ?
