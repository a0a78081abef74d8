-- Schedules.get.
SELECT id, revision, entry, state FROM stem_schedules WHERE ns = ? AND id = ?
