-- Hand out the next numbers of a series; a rollback returns them.
INSERT INTO stem_numbers (ns, name, value) VALUES (?1, ?2, ?3)
ON CONFLICT (ns, name) DO UPDATE SET value = value + ?3
RETURNING value
