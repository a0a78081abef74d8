-- Write the success of a task that held a unique key or has meta.
UPDATE stem_tasks SET
    state = 'succeeded', fence = ?1, started_at = ?2, finished_at = ?3, updated_at = ?3, ended_at = ?3, worker = ?4,
    unique_key = NULL, error = NULL, meta = ?5, payload = ?6, body = NULL
WHERE seq = ?7
