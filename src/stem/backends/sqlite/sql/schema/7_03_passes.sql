-- Whether the task counts as a success for those that wait for it, although it was cancelled.
ALTER TABLE stem_tasks ADD COLUMN passes INTEGER
