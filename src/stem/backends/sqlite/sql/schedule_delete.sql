-- Schedules.delete.
DELETE FROM stem_schedules WHERE ns = ? AND id = ?
