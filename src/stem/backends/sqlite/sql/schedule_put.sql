-- Schedules.write: its revision was compared in the same transaction.
INSERT OR REPLACE INTO stem_schedules (ns, id, revision, due_at, entry, state) VALUES (?, ?, ?, ?, ?, ?)
