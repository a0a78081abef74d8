-- Read the heartbeats that have not expired, by worker id.
SELECT beat, at FROM stem_heartbeats WHERE ns = ? AND expires_at > ? ORDER BY worker
