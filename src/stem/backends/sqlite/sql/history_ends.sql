-- History.slices: read the first and the last number of this namespace's records.
SELECT (SELECT min(seq) FROM stem_tasks WHERE seq BETWEEN ?1 AND ?2), (SELECT max(seq) FROM stem_tasks WHERE seq BETWEEN ?1 AND ?2)
