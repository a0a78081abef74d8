-- Events.read: read the events after the offset. An open transaction may yet log under its own number, so events at or above the
-- oldest open one are not returned; readers lag while an older writing transaction stays open anywhere on the server.
SELECT txid::text || '-' || n::text, kind, at, task_id, name, queue, attempt, worker, enqueued_at, started_at, data
FROM {s}.events
WHERE ns = %(ns)s AND (txid, n) > (%(txid)s::text::xid8, %(n)s::bigint)
  AND txid < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY txid, n LIMIT %(limit)s
