-- Delete the heartbeat of a worker that stops.
DELETE FROM stem_heartbeats WHERE ns = ? AND worker = ? RETURNING expires_at
