-- Part of Broker.insert_dead: lease the tasks that this transaction has just pushed, at the attempt they had elsewhere. The fence
-- stays 0.
UPDATE {s}.messages m
SET place = 2, leased_until = {s}.now_seconds() + 60, attempt = u.attempt
FROM unnest(%(ids)s::text[], %(attempts)s::integer[]) AS u (id, attempt)
WHERE m.ns = %(ns)s AND m.id = u.id
