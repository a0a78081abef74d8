-- Read the rows with events after an offset, in order.
SELECT seq, lines FROM stem_events WHERE seq > ? AND seq <= ? ORDER BY seq
