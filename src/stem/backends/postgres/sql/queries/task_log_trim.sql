-- TaskLogs.append: keep the newest lines of these tasks.
DELETE FROM {s}.task_logs l USING unnest(%(ids)s::text[]) AS given (id)
WHERE l.ns = %(ns)s AND l.id = given.id AND l.position <= (
    SELECT k.position FROM {s}.task_logs k WHERE k.ns = %(ns)s AND k.id = given.id
    ORDER BY k.position DESC OFFSET %(most)s LIMIT 1
)
