-- Events.wait: tell whether there is an event after the offset that a reader may see.
SELECT EXISTS (
    SELECT FROM {s}.events
    WHERE ns = %(ns)s AND (txid, n) > (%(txid)s::text::xid8, %(n)s::bigint)
      AND txid < pg_snapshot_xmin(pg_current_snapshot())
)
