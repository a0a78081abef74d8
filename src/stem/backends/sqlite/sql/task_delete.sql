-- Delete the record of an ended task, so that its id can be used again.
DELETE FROM stem_tasks WHERE seq = ?
