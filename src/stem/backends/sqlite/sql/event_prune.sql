-- The log is bounded by count and age.
DELETE FROM stem_events WHERE seq BETWEEN ? AND ?
