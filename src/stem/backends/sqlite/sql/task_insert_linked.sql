-- Store a push that others wait for (?12), that joins (?13), or that came with such ones.
INSERT INTO stem_tasks (
    seq, ns, id, name, queue, priority, state, attempt, fence, deaths, enqueued_at, updated_at,
    expires_at, visibility_timeout, unique_key, meta, body, awaited, joins
) VALUES (?1, ?1 >> 40, ?2, ?3, ?4, ?5, 'queued', 0, 0, 0, ?6, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
