-- Take a key that is free or has expired.
INSERT OR REPLACE INTO stem_uniques (ns, key, holder, held_until) VALUES (?, ?, ?, ?)
