-- Revokes.prune: delete exactly the expired records.
WITH gone AS (
    DELETE FROM {s}.revokes WHERE ns = %(ns)s AND expires_at <= {s}.now_seconds() RETURNING 1
)
SELECT count(*) FROM gone
