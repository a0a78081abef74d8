-- Delete a bounded number of lines that are past their retention.
DELETE FROM stem_task_logs WHERE position IN (
    SELECT position FROM stem_task_logs WHERE ns = ? AND at <= ? LIMIT ?
)
