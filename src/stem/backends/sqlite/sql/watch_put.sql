-- Keep the watch.
INSERT OR REPLACE INTO stem_watch (ns, seen_at, since) VALUES (?, ?, ?)
