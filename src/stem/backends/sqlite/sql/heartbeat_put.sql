-- Replace the worker's last one.
INSERT OR REPLACE INTO stem_heartbeats (ns, worker, beat, at, expires_at) VALUES (?, ?, ?, ?, ?)
