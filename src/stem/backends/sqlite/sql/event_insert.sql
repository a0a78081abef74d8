-- Append to the log, in the transaction of the change.
INSERT INTO stem_events (seq, lines) VALUES (?, ?)
