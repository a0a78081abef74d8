-- Delete expired heartbeats.
DELETE FROM stem_heartbeats WHERE ns = ? AND expires_at <= ?
