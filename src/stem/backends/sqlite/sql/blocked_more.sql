-- Let a join wait for more tasks.
UPDATE stem_blocked SET missing = missing + ? WHERE seq = ?
