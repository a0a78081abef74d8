-- Heartbeats.forget: delete the heartbeat of a worker that stops.
DELETE FROM {s}.heartbeats WHERE ns = %(ns)s AND worker_id = %(worker)s RETURNING kept_until > {s}.now_seconds()
