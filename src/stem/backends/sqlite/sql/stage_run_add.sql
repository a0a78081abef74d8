-- Store the ids of some pushes of one kind.
INSERT INTO runs (kind, rows, ids) VALUES (?, ?, ?)
