-- Add to the number of pushes of a part.
INSERT INTO parts (name, rows) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET rows = rows + ?2 RETURNING number
