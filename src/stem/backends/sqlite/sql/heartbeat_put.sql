-- Replace the last heartbeat of the worker.
INSERT OR REPLACE INTO stem_heartbeats (ns, worker, beat, at, expires_at) VALUES (?, ?, ?, ?, ?)
