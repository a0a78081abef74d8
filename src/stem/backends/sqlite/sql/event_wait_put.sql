-- Remember which event makes a delayed task due.
INSERT OR REPLACE INTO stem_event_waits (task, event, due_at) VALUES (?, ?, ?)
