-- Look at these records again later; they are past their retention and still needed.
UPDATE stem_tasks SET ended_at = ?2 WHERE seq IN (SELECT value FROM json_each(?1))
