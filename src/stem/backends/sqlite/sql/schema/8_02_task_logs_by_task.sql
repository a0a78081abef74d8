CREATE INDEX stem_task_logs_by_task ON stem_task_logs (ns, task_id, position)
