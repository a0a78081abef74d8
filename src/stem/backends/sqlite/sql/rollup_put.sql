-- Replace the row of the same minute and key.
INSERT OR REPLACE INTO stem_rollups (ns, minute, digest, body) VALUES (?, ?, ?, ?)
