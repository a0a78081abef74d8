COPY {table} (part, id, name, queue, priority, delay_seconds, due_at, lifetime_seconds, expires_at, visibility_timeout, meta, body)
FROM STDIN
