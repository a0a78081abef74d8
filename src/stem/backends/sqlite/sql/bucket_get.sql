-- Read the level of a bucket. A bucket without a row is full.
SELECT tokens, promised_seconds, pace_seconds, updated_at FROM stem_buckets WHERE ns = ? AND key = ?
