-- Heartbeats.forget: a worker said goodbye.
DELETE FROM {s}.heartbeats WHERE ns = %(ns)s AND worker_id = %(worker)s RETURNING kept_until > {s}.now_seconds()
