-- Write a changed task as a whole; successes have statements of their own.
UPDATE stem_tasks SET
    state = ?, attempt = ?, fence = ?, deaths = ?, updated_at = ?, started_at = ?, finished_at = ?, heartbeat_at = ?,
    ended_at = ?, expires_at = ?, worker = ?, unique_key = ?, error = ?, meta = ?, body = iif(?, body, NULL)
WHERE seq = ?
