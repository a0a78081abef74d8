-- Read who holds this key now, and until when (NULL: until the holder ends). A cancelled task does not count as a holder.
-- With them: when its series began, and when it was due.
SELECT u.holder, u.held_until, u.since, u.due_at FROM stem_uniques AS u
WHERE u.ns = ?1 AND u.key = ?2 AND (u.held_until IS NULL OR u.held_until > ?3)
    AND NOT EXISTS (SELECT 1 FROM stem_tasks AS t WHERE t.ns = ?1 AND t.id = u.holder AND t.state = 'cancelled')
