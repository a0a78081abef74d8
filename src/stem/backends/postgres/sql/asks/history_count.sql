-- History.slices: how many events lie behind one offset, up to and with another.
SELECT count(*) FROM {s}.events
WHERE ns = %(ns)s AND (txid, n) > (%(txid)s::text::xid8, %(n)s::bigint)
  AND (txid, n) <= (%(last_txid)s::text::xid8, %(last_n)s::bigint)
