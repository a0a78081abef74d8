-- Forget promotions whose results are past their retention.
DELETE FROM stem_stage_jobs WHERE ns = ? AND promoted_at <= ?
