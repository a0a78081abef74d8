-- History.slices: the first and the last place that a record of this namespace has.
SELECT (SELECT min(seq) FROM stem_tasks WHERE seq BETWEEN ?1 AND ?2), (SELECT max(seq) FROM stem_tasks WHERE seq BETWEEN ?1 AND ?2)
