-- Revokes.get: read the records of these tasks that have not expired.
SELECT version, created_at, expires_at, body FROM {s}.revokes
WHERE ns = %(ns)s AND task_id = ANY (%(ids)s) AND (expires_at IS NULL OR expires_at > {s}.now_seconds())
