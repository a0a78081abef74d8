-- Tell whether a claim on this queue would find a task.
SELECT
    EXISTS (SELECT 1 FROM stem_ready WHERE ns = ?1 AND queue = ?2)
    OR EXISTS (SELECT 1 FROM stem_delayed WHERE ns = ?1 AND queue = ?2 AND due_at <= ?3)
