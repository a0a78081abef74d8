-- DeadLetters.get and page: read letters, newest first, each with its record.
SELECT d.id, d.name, d.queue, d.attempt, d.reason, d.error, d.meta, d.dead_at, d.body, r.worker, r.meta, d.seq
FROM {s}.dead d LEFT JOIN {s}.records r ON r.id = d.id AND r.ns = d.ns
WHERE d.ns = %(ns)s AND d.seq < %(below)s
  AND (%(ids)s::text[] IS NULL OR d.id = ANY (%(ids)s)) AND (%(queue)s::text IS NULL OR d.queue = %(queue)s)
  AND (%(name)s::text IS NULL OR d.name = %(name)s) AND (%(reason)s::text IS NULL OR d.reason = %(reason)s)
  AND (%(since)s::float8 IS NULL OR d.dead_at >= %(since)s) AND (%(until)s::float8 IS NULL OR d.dead_at < %(until)s)
ORDER BY d.seq DESC LIMIT %(limit)s
