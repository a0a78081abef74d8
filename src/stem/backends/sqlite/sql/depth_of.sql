-- Count one queue exactly: ready, delayed, running, dead, blocked.
SELECT
    (SELECT count(*) FROM stem_ready WHERE ns = ?1 AND queue = ?2)
    + (SELECT count(*) FROM stem_delayed WHERE ns = ?1 AND queue = ?2 AND due_at <= ?3),
    (SELECT count(*) FROM stem_delayed WHERE ns = ?1 AND queue = ?2 AND due_at > ?3),
    (
        SELECT count(*) FROM stem_leases AS l CROSS JOIN stem_tasks AS t ON t.seq = l.seq
        WHERE l.seq BETWEEN ?4 AND ?5 AND t.queue = ?2
    ),
    (SELECT count(*) FROM stem_dead WHERE seq BETWEEN ?4 AND ?5 AND queue = ?2),
    (SELECT count(*) FROM stem_blocked WHERE ns = ?1 AND queue = ?2 AND is_waiting = 1)
