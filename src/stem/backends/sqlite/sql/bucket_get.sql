-- The level of a bucket; none: it is full.
SELECT tokens, promised_seconds, pace_seconds, updated_at FROM stem_buckets WHERE ns = ? AND key = ?
