-- History.chunks: read the events after one offset, up to and including another. Every transaction that can write there had ended
-- when the slice was cut, so it is safe to read. Moments are whole microseconds.
SELECT txid::text || '-' || n::text AS "offset", kind, round(at * 1000000)::bigint AS at, task_id, name, queue, attempt, worker,
       round(enqueued_at * 1000000)::bigint AS enqueued_at, round(started_at * 1000000)::bigint AS started_at,
       coalesce(data, '{{}}') AS data
FROM {s}.events
WHERE ns = %(ns)s AND (txid, n) > (%(txid)s::text::xid8, %(n)s::bigint)
  AND (txid, n) <= (%(last_txid)s::text::xid8, %(last_n)s::bigint)
  AND (%(kinds)s::text[] IS NULL OR kind = ANY (%(kinds)s)) AND (%(queue)s::text IS NULL OR queue = %(queue)s)
  AND (%(name)s::text IS NULL OR name = %(name)s)
  AND (%(since)s::float8 IS NULL OR events.at >= %(since)s) AND (%(until)s::float8 IS NULL OR events.at < %(until)s)
ORDER BY txid, n LIMIT %(limit)s
