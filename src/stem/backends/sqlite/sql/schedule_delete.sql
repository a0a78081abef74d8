-- Schedules.delete. The id may be given as bytes.
DELETE FROM stem_schedules WHERE ns = ? AND id = CAST(? AS TEXT)
