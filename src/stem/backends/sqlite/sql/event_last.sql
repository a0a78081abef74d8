-- Read the newest event of a namespace.
SELECT max(seq) FROM stem_events WHERE seq BETWEEN ? AND ?
