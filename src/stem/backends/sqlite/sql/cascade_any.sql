-- Tell whether dependents are left to be cancelled.
SELECT EXISTS (SELECT 1 FROM stem_cascades WHERE seq BETWEEN ?1 AND ?2)
