-- Those not forgotten, by worker id.
SELECT beat, at FROM stem_heartbeats WHERE ns = ? AND expires_at > ? ORDER BY worker
