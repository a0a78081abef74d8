-- Store the level of a bucket after tokens were taken or promised.
INSERT OR REPLACE INTO stem_buckets (ns, key, tokens, promised_seconds, pace_seconds, updated_at, expires_at)
VALUES (?, ?, ?, ?, ?, ?, ?)
