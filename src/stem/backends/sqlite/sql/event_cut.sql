-- Delete the first events of a row, which are past the count or age that the log keeps.
UPDATE stem_events SET lines = ? WHERE seq = ?
