-- What is left after some were taken or promised.
INSERT OR REPLACE INTO stem_buckets (ns, key, tokens, promised_seconds, pace_seconds, updated_at, expires_at)
VALUES (?, ?, ?, ?, ?, ?, ?)
