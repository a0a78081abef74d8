-- Taken or renewed.
INSERT OR REPLACE INTO stem_locks (ns, name, owner, fence, held_until) VALUES (?, ?, ?, ?, ?)
