-- Schedules.all and broken: by id.
SELECT id, revision, entry, state FROM stem_schedules WHERE ns = ? ORDER BY id
