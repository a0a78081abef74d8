-- Events.read: tell whether an event after the offset has been committed that a reader may not see yet.
SELECT EXISTS (
    SELECT FROM {s}.events
    WHERE ns = %(ns)s AND (txid, n) > (%(txid)s::text::xid8, %(n)s::bigint)
      AND txid >= pg_snapshot_xmin(pg_current_snapshot())
)
