-- Heartbeats.beat: replace the last heartbeat of the worker.
INSERT INTO {s}.heartbeats (ns, worker_id, at, kept_until, body)
SELECT %(ns)s, %(worker)s, now, now + %(ttl)s, %(body)s FROM {s}.now_seconds() AS now
ON CONFLICT (ns, worker_id) DO UPDATE SET at = excluded.at, kept_until = excluded.kept_until, body = excluded.body
