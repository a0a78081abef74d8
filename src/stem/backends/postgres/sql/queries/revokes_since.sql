-- Revokes.since: read live records with a higher version, lowest first.
SELECT version, created_at, expires_at, body FROM {s}.revokes
WHERE ns = %(ns)s AND version > %(version)s AND (expires_at IS NULL OR expires_at > {s}.now_seconds())
ORDER BY version LIMIT %(limit)s
