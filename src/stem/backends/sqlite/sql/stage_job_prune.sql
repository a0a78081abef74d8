-- Forget jobs whose tasks' results retention has outlived.
DELETE FROM stem_stage_jobs WHERE ns = ? AND promoted_at <= ?
