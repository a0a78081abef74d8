-- Keep a step. The first of a name stays.
INSERT OR IGNORE INTO stem_steps (task, name, payload, at) VALUES (?, ?, ?, ?)
