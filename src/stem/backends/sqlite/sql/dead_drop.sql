-- A dropped letter's task keeps its record, and retention counts for it from now on.
UPDATE stem_tasks SET body = NULL, ended_at = finished_at WHERE seq = ?
