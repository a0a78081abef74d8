-- Store a lock that was taken or renewed.
INSERT OR REPLACE INTO stem_locks (ns, name, owner, fence, held_until) VALUES (?, ?, ?, ?, ?)
