-- A push: state queued, stored whole.
INSERT INTO stem_tasks (
    seq, ns, id, name, queue, priority, state, attempt, fence, deaths, enqueued_at, updated_at,
    expires_at, visibility_timeout, unique_key, meta, body
) VALUES (?, ?, ?, ?, ?, ?, 'queued', 0, 0, 0, ?, ?, ?, ?, ?, ?, ?)
