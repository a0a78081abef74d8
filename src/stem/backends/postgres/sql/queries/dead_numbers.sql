-- DeadLetters.replay and purge: find the letters that match, newest first.
SELECT id, seq
FROM {s}.dead
WHERE ns = %(ns)s
  AND (%(ids)s::text[] IS NULL OR id = ANY (%(ids)s)) AND (%(queue)s::text IS NULL OR queue = %(queue)s)
  AND (%(name)s::text IS NULL OR name = %(name)s) AND (%(reason)s::text IS NULL OR reason = %(reason)s)
  AND (%(since)s::float8 IS NULL OR dead_at >= %(since)s) AND (%(until)s::float8 IS NULL OR dead_at < %(until)s)
ORDER BY seq DESC LIMIT %(limit)s
