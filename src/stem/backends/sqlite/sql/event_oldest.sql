-- Read the log from its oldest row on, as far as needed.
SELECT seq, lines FROM stem_events WHERE seq BETWEEN ? AND ? ORDER BY seq
