-- History.slices: count the events after one offset, up to and including another.
SELECT count(*) FROM {s}.events
WHERE ns = %(ns)s AND (txid, n) > (%(txid)s::text::xid8, %(n)s::bigint)
  AND (txid, n) <= (%(last_txid)s::text::xid8, %(last_n)s::bigint)
