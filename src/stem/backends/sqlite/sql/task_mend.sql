-- SQLite takes any value in any column: what somebody has written there by hand becomes what can be read, and parked.
UPDATE stem_tasks SET
    name = CASE typeof(name) WHEN 'text' THEN name ELSE hex(name) END,
    attempt = CAST(attempt AS INTEGER),
    deaths = CAST(deaths AS INTEGER),
    visibility_timeout = NULL,
    expires_at = NULL,
    body = CAST(ifnull(body, '') AS BLOB)
WHERE seq = ?
RETURNING name, attempt, deaths
