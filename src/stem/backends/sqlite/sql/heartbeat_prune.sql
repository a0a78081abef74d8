-- Workers not heard of for too long.
DELETE FROM stem_heartbeats WHERE ns = ? AND expires_at <= ?
