-- Write a success: payload set, error cleared, envelope deleted; its retention begins now.
UPDATE stem_tasks SET
    state = 'succeeded', fence = ?1, started_at = ?2, finished_at = ?3, updated_at = ?3, ended_at = ?3, worker = ?4,
    error = NULL, payload = ?5, body = NULL
WHERE seq = ?6
