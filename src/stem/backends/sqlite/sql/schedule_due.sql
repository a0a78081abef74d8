-- Schedules.due, next_due_at and wait: earliest first, up to a moment; as bytes, like schedule_all.
SELECT CAST(id AS BLOB), CASE typeof(revision) WHEN 'integer' THEN revision END, CAST(entry AS BLOB), CAST(state AS BLOB)
FROM stem_schedules WHERE ns = ? AND due_at <= ? ORDER BY due_at, id
