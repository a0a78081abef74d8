-- Free the key of a task that has ended, if this task holds it. A key that is held for some time is freed early only if the
-- holder was cancelled (?4), because its work was not done.
DELETE FROM stem_uniques WHERE ns = ?1 AND key = ?2 AND holder = ?3 AND (?4 OR held_until IS NULL)
