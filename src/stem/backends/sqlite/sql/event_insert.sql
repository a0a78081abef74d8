-- The log is written with the change it tells of.
INSERT INTO stem_events (seq, lines) VALUES (?, ?)
