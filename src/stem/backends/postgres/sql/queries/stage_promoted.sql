-- Staging.promoted: read the answer of the job's promotion.
SELECT created, known FROM {s}.stage_jobs WHERE ns = %(ns)s AND job = %(job)s AND promoted_at IS NOT NULL
