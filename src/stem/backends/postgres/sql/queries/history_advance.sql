-- History.advance: find the offset this many events after another, or the newest that a reader may see if that is nearer; in one
-- snapshot, so that it is never further than asked.
SELECT coalesce(
    (SELECT txid::text || '-' || n::text FROM {s}.events
     WHERE ns = %(ns)s AND (txid, n) > (%(txid)s::text::xid8, %(n)s::bigint)
       AND txid < pg_snapshot_xmin(pg_current_snapshot())
     ORDER BY txid, n OFFSET %(limit)s - 1 LIMIT 1),
    (SELECT txid::text || '-' || n::text FROM {s}.events
     WHERE ns = %(ns)s AND (txid, n) > (%(txid)s::text::xid8, %(n)s::bigint)
       AND txid < pg_snapshot_xmin(pg_current_snapshot())
     ORDER BY txid DESC, n DESC LIMIT 1)
)
