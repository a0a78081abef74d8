-- Give a namespace its number, unless another process has done so.
INSERT OR IGNORE INTO stem_namespaces (name) VALUES (?)
