-- Read the next live revokes by task, and when each expires (infinity for never). Reads no record, so it is quick over millions.
-- The types are checked, because SQLite stores bytes in a text column and text in a number column.
SELECT task_id, ifnull(expires_at, 9e999) FROM stem_revokes
WHERE ns = ?1 AND task_id > ?2 AND (expires_at IS NULL OR expires_at > ?3)
    AND typeof(task_id) = 'text' AND typeof(expires_at) IN ('null', 'real')
ORDER BY task_id LIMIT ?4
