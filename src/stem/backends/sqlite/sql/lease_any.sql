-- Tell whether any task is leased.
SELECT EXISTS (SELECT 1 FROM stem_leases WHERE seq BETWEEN ?1 AND ?2)
