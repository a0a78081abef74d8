-- Store the reclaim watch of the namespace.
INSERT OR REPLACE INTO stem_watch (ns, seen_at, since) VALUES (?, ?, ?)
