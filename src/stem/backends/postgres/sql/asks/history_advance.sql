-- History.advance: of so many events after an offset that a reader may see, the last; in one snapshot, so that it is
-- never further than asked.
SELECT txid::text || '-' || n::text
FROM (
    SELECT txid, n FROM {s}.events
    WHERE ns = %(ns)s AND (txid, n) > (%(txid)s::text::xid8, %(n)s::bigint)
      AND txid < pg_snapshot_xmin(pg_current_snapshot())
    ORDER BY txid, n LIMIT %(limit)s
) ahead
ORDER BY txid DESC, n DESC LIMIT 1
