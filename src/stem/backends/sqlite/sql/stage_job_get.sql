-- What a job's promotion answered.
SELECT created, known FROM stem_stage_jobs WHERE ns = ? AND job = ?
