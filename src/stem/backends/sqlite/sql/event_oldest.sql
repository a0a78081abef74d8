-- The old end of the log, bounded.
SELECT seq, lines FROM stem_events WHERE seq BETWEEN ? AND ? ORDER BY seq LIMIT ?
