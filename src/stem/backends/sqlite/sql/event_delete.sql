-- The log is bounded by count and age: a whole row of it.
DELETE FROM stem_events WHERE seq = ?
