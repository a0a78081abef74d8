-- The end of the run of events, oldest first, that age or number has outlived; bounded work.
SELECT coalesce(
    (SELECT min(seq) - 1 FROM (
        SELECT seq, at FROM stem_events WHERE seq BETWEEN ?1 AND ?2 ORDER BY seq LIMIT ?5
    ) WHERE at > ?3 AND seq > ?4),
    (SELECT max(seq) FROM (
        SELECT seq FROM stem_events WHERE seq BETWEEN ?1 AND ?2 ORDER BY seq LIMIT ?5
    ))
)
