-- Repair a task whose row was written by hand, so that it can be read and parked: SQLite stores any value in any column.
UPDATE stem_tasks SET
    id = ?2,
    name = ?3,
    queue = ?4,
    attempt = CAST(attempt AS INTEGER),
    deaths = CAST(deaths AS INTEGER),
    visibility_timeout = NULL,
    expires_at = NULL,
    body = CAST(ifnull(body, '') AS BLOB)
WHERE seq = ?1
RETURNING attempt, deaths
