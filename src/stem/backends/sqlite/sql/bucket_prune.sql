-- Buckets that are full again, with no promise left; bounded work.
DELETE FROM stem_buckets WHERE (ns, key) IN (
    SELECT ns, key FROM stem_buckets WHERE ns = ? AND expires_at <= ? LIMIT ?
)
