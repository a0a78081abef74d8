-- History.missed: tell whether no event after an offset can have been pruned. The oldest events are pruned first, so an event at
-- or before the offset proves it; the log may also be empty.
SELECT coalesce(
    (SELECT (txid, n) <= (%(txid)s::text::xid8, %(n)s::bigint) FROM {s}.events
     WHERE ns = %(ns)s ORDER BY txid, n LIMIT 1),
    true
)
