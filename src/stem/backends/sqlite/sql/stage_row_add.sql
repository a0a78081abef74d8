-- Store one push. It has few values, and none that sqlite3 would have to adapt, because the values are what a row costs.
INSERT INTO rows (kind, id, text) VALUES (?, ?, ?)
