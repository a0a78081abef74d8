-- Delete a bounded number of buckets that are full again and have promised no token.
DELETE FROM stem_buckets WHERE (ns, key) IN (
    SELECT ns, key FROM stem_buckets WHERE ns = ? AND expires_at <= ? LIMIT ?
)
