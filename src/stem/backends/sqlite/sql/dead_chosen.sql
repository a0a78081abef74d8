-- Read the tasks of dead letters, newest first. A filter that is NULL matches all.
SELECT d.task, t.id
FROM stem_dead AS d
CROSS JOIN stem_tasks AS t ON t.seq = d.task
WHERE
    d.seq BETWEEN :first AND :last
    AND (:ids IS NULL OR t.id IN (SELECT value FROM json_each(:ids)))
    AND (:queue IS NULL OR d.queue = :queue)
    AND (:name IS NULL OR d.name = :name)
    AND (:reason IS NULL OR d.reason = :reason)
    AND (:since IS NULL OR d.dead_at >= :since)
    AND (:until IS NULL OR d.dead_at < :until)
ORDER BY d.seq DESC LIMIT :limit
