-- Events.head: read the newest event that a reader may see.
SELECT txid::text || '-' || n::text FROM {s}.events
WHERE ns = %(ns)s AND txid < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY txid DESC, n DESC LIMIT 1
