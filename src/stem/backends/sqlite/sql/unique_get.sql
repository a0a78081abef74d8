-- Who holds this key now.
SELECT holder FROM stem_uniques WHERE ns = ? AND key = ? AND (held_until IS NULL OR held_until > ?)
