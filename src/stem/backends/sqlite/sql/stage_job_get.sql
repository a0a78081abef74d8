-- Read the answer of a job's promotion.
SELECT created, known FROM stem_stage_jobs WHERE ns = ? AND job = ?
