-- History.missed: whether nothing behind an offset can have been dropped. The oldest go first, so one that is kept from
-- there or before says so; and there may be none at all.
SELECT coalesce(
    (SELECT (txid, n) <= (%(txid)s::text::xid8, %(n)s::bigint) FROM {s}.events
     WHERE ns = %(ns)s ORDER BY txid, n LIMIT 1),
    true
)
