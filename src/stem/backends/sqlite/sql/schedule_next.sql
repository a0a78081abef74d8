-- Schedules.next_due_at.
SELECT min(due_at) FROM stem_schedules WHERE ns = ? AND due_at IS NOT NULL
