-- Schedules.due, next_due_at, wait: read entries due within so many seconds, earliest first, from a place on, each with the
-- seconds until it is due. The limit reads the clock once, so that the index is read no further than asked.
SELECT id, entry, state, revision, due_at, due_at - {s}.now_seconds() FROM {s}.schedules
WHERE ns = %(ns)s AND due_at IS NOT NULL AND due_at <= (SELECT {s}.now_seconds() + %(within)s::float8)
  AND (due_at, id) > (%(after)s::float8, %(after_id)s::text)
ORDER BY due_at, id LIMIT %(limit)s
