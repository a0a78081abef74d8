-- A namespace gets its number once, whoever comes first.
INSERT OR IGNORE INTO stem_namespaces (name) VALUES (?)
