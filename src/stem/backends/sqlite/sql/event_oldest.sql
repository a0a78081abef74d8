-- The old end of the log, read as far as needed.
SELECT seq, lines FROM stem_events WHERE seq BETWEEN ? AND ? ORDER BY seq
