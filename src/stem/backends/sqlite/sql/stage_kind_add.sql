-- Store what some pushes of a part have in common.
INSERT INTO kinds (
    number, part, name, queue, priority, delay_seconds, due_at, lifetime_seconds, expires_at, visibility_timeout, meta,
    tenant, between_id, behind
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
