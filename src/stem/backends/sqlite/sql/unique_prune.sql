-- Delete a bounded number of expired keys.
DELETE FROM stem_uniques WHERE (ns, key) IN (
    SELECT ns, key FROM stem_uniques WHERE ns = ? AND held_until <= ? LIMIT ?
)
