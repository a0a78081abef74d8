-- Take back one death of a task that has not ended.
UPDATE stem_tasks SET deaths = max(0, deaths - 1)
WHERE ns = ? AND id = ? AND state IN ('queued', 'retried', 'running')
