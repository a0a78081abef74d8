-- Delete a bounded number of expired places.
DELETE FROM stem_places WHERE (ns, key, holder) IN (
    SELECT ns, key, holder FROM stem_places WHERE ns = ? AND expires_at <= ? LIMIT ?
)
