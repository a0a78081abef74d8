-- History.slices: read every nth offset after one and before another.
SELECT txid::text || '-' || n::text
FROM (
    SELECT txid, n, row_number() OVER (ORDER BY txid, n) AS place FROM {s}.events
    WHERE ns = %(ns)s AND (txid, n) > (%(txid)s::text::xid8, %(n)s::bigint)
      AND (txid, n) < (%(last_txid)s::text::xid8, %(last_n)s::bigint)
) numbered
WHERE place %% %(step)s = 0
ORDER BY place
