-- Heartbeats.all: read the heartbeats that have not expired, by worker id, each with its age in store time.
SELECT body, greatest(0, now - at) FROM {s}.heartbeats, {s}.now_seconds() AS now
WHERE ns = %(ns)s AND kept_until > now ORDER BY worker_id
