-- Staging.promoted: what the job's promotion answered.
SELECT created, known FROM {s}.stage_jobs WHERE ns = %(ns)s AND job = %(job)s AND promoted_at IS NOT NULL
