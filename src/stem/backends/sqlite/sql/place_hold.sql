-- Limiter.hold: renew the holder's place, or take a free one. Changes nothing if none is free.
INSERT INTO stem_places (ns, key, holder, expires_at)
SELECT ?1, ?2, ?3, ?4
WHERE EXISTS (SELECT 1 FROM stem_places WHERE ns = ?1 AND key = ?2 AND holder = ?3 AND expires_at > ?5)
    OR (SELECT count(*) FROM stem_places WHERE ns = ?1 AND key = ?2 AND expires_at > ?5) < ?6
ON CONFLICT (ns, key, holder) DO UPDATE SET expires_at = excluded.expires_at
