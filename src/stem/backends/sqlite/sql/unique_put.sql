-- Take a key that is free, has expired or is taken over.
INSERT OR REPLACE INTO stem_uniques (ns, key, holder, held_until, since, due_at) VALUES (?, ?, ?, ?, ?, ?)
