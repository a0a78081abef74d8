-- The log is bounded by count and age: the first events of a row.
UPDATE stem_events SET lines = ? WHERE seq = ?
