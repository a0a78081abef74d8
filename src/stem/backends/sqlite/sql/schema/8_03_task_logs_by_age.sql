CREATE INDEX stem_task_logs_by_age ON stem_task_logs (ns, at)
