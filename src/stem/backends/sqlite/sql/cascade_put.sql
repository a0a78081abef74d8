-- Remember an ended task, not all of whose dependents have been cancelled.
INSERT OR IGNORE INTO stem_cascades (seq) VALUES (?)
