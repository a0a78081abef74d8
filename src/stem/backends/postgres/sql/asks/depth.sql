-- Broker.depth: exact counts a queue, in one snapshot.
SELECT queue, sum(ready)::bigint, sum(delayed)::bigint, sum(running)::bigint, sum(dead)::bigint
FROM (
    SELECT queue, count(*) FILTER (WHERE place < 2 AND due_at <= moment.now) AS ready,
           count(*) FILTER (WHERE place < 2 AND due_at > moment.now) AS delayed,
           count(*) FILTER (WHERE place = 2) AS running, 0 AS dead
    FROM {s}.messages, (SELECT {s}.now_seconds() AS now) moment
    WHERE ns = %(ns)s AND (%(queues)s::text[] IS NULL OR queue = ANY (%(queues)s)) GROUP BY queue
    UNION ALL
    SELECT queue, 0, 0, 0, count(*) FROM {s}.dead
    WHERE ns = %(ns)s AND (%(queues)s::text[] IS NULL OR queue = ANY (%(queues)s)) GROUP BY queue
) counted
GROUP BY queue
