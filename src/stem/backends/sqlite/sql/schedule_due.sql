-- Schedules.due: earliest first.
SELECT id, revision, entry, state FROM stem_schedules WHERE ns = ? AND due_at <= ? ORDER BY due_at, id LIMIT ?
