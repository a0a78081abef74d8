-- Write what this file states of itself, in the transaction that changes the schema.
INSERT OR REPLACE INTO stem_meta (key, value) VALUES (?, ?)
