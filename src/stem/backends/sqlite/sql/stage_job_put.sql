-- Remember a promotion, in its own transaction.
INSERT INTO stem_stage_jobs (ns, job, created, known, promoted_at) VALUES (?, ?, ?, ?, ?)
