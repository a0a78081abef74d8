-- Broker.depth: count the tasks of each queue exactly, in one snapshot. It has one part per place, each counted from its index.
SELECT queue, sum(ready)::bigint, sum(delayed)::bigint, sum(running)::bigint, sum(dead)::bigint,
       sum(blocked)::bigint
FROM (
    SELECT queue, count(*) AS ready, 0 AS delayed, 0 AS running, 0 AS dead, 0 AS blocked
    FROM {s}.messages
    WHERE ns = %(ns)s AND place = 0 AND (%(queues)s::text[] IS NULL OR queue = ANY (%(queues)s)) GROUP BY queue
    UNION ALL
    SELECT queue, count(*) FILTER (WHERE due_at <= moment.now), count(*) FILTER (WHERE due_at > moment.now), 0, 0, 0
    FROM {s}.messages, (SELECT {s}.now_seconds() AS now) moment
    WHERE ns = %(ns)s AND place = 1 AND (%(queues)s::text[] IS NULL OR queue = ANY (%(queues)s)) GROUP BY queue
    UNION ALL
    SELECT queue, 0, 0, count(*), 0, 0
    FROM {s}.messages
    WHERE ns = %(ns)s AND place = 2 AND (%(queues)s::text[] IS NULL OR queue = ANY (%(queues)s)) GROUP BY queue
    UNION ALL
    SELECT queue, 0, 0, 0, count(*), 0
    FROM {s}.dead
    WHERE ns = %(ns)s AND (%(queues)s::text[] IS NULL OR queue = ANY (%(queues)s)) GROUP BY queue
    UNION ALL
    SELECT queue, 0, 0, 0, 0, count(*)
    FROM {s}.messages
    WHERE ns = %(ns)s AND place = 3 AND (%(queues)s::text[] IS NULL OR queue = ANY (%(queues)s)) GROUP BY queue
) counted
GROUP BY queue
