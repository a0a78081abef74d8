-- One push. Few values, and none that sqlite3 would have to adapt: that is what a row costs.
INSERT INTO rows (kind, id, text) VALUES (?, ?, ?)
