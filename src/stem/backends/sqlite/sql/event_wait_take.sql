-- Forget that a task waits for this event; return where the task is delayed.
DELETE FROM stem_event_waits WHERE task = ? AND event = ? RETURNING due_at
