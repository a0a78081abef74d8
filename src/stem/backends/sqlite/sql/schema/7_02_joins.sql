-- Whether the task ends instead of being released, because it is a join or was blocked by its own run.
ALTER TABLE stem_tasks ADD COLUMN joins INTEGER
