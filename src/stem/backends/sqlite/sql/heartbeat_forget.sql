-- A worker said goodbye.
DELETE FROM stem_heartbeats WHERE ns = ? AND worker = ? RETURNING expires_at
