-- Mail.receive: take messages out, oldest first, each for one receiver only.
WITH next AS MATERIALIZED (
    SELECT x.number FROM {s}.mail x
    WHERE x.ns = %(ns)s AND NOT x.is_channel AND x.name = %(name)s AND x.expires_at > {s}.now_seconds()
    ORDER BY x.number LIMIT %(limit)s FOR UPDATE SKIP LOCKED
), taken AS (
    DELETE FROM {s}.mail m USING next
    WHERE m.ns = %(ns)s AND NOT m.is_channel AND m.name = %(name)s AND m.number = next.number
    RETURNING m.number, m.message
)
SELECT message FROM taken ORDER BY number
