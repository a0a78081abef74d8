-- List the queues that have a task waiting, blocked, running or dead; jumps through the index from one name to the next.
WITH RECURSIVE
ready (queue) AS (
    SELECT min(queue) FROM stem_ready WHERE ns = ?1
    UNION ALL
    SELECT (SELECT min(queue) FROM stem_ready WHERE ns = ?1 AND queue > ready.queue) FROM ready WHERE queue IS NOT NULL
),
delayed (queue) AS (
    SELECT min(queue) FROM stem_delayed WHERE ns = ?1
    UNION ALL
    SELECT (SELECT min(queue) FROM stem_delayed WHERE ns = ?1 AND queue > delayed.queue) FROM delayed
    WHERE queue IS NOT NULL
),
blocked (queue) AS (
    SELECT min(queue) FROM stem_blocked WHERE ns = ?1 AND is_waiting = 1
    UNION ALL
    SELECT (SELECT min(queue) FROM stem_blocked WHERE ns = ?1 AND is_waiting = 1 AND queue > blocked.queue) FROM blocked
    WHERE queue IS NOT NULL
)
SELECT queue FROM ready WHERE queue IS NOT NULL
UNION
SELECT queue FROM delayed WHERE queue IS NOT NULL
UNION
SELECT queue FROM blocked WHERE queue IS NOT NULL
UNION
SELECT t.queue FROM stem_leases AS l CROSS JOIN stem_tasks AS t ON t.seq = l.seq WHERE l.seq BETWEEN ?2 AND ?3
UNION
SELECT queue FROM stem_dead WHERE seq BETWEEN ?2 AND ?3
