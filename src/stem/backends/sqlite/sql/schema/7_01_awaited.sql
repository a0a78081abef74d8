-- Whether anybody waits, or waited, for the task: NULL for most. Such a record may be kept past its retention; `ended_at` then
-- only says when to look at it again, and `finished_at` whether it can be read.
ALTER TABLE stem_tasks ADD COLUMN awaited INTEGER
