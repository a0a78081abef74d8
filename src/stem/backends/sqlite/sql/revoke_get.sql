-- Read the revokes of these tasks that have not expired.
SELECT r.version, r.record FROM json_each(?2) AS wanted
CROSS JOIN stem_revokes AS r ON r.ns = ?1 AND r.task_id = wanted.value
WHERE r.expires_at IS NULL OR r.expires_at > ?3
