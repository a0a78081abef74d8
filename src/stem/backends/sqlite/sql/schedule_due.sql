-- Schedules.due, next_due_at and wait: earliest first, up to a moment.
SELECT id, revision, entry, state FROM stem_schedules WHERE ns = ? AND due_at <= ? ORDER BY due_at, id
