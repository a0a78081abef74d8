-- List which of these records somebody who waited for them may still read: a task that has not ended or lies among the dead
-- letters, or one within its retention that was cancelled for a failed prerequisite or is a join. One of those past its
-- retention counts if it is needed itself.
WITH RECURSIVE waiting (root, seq) AS (
    SELECT wanted.value, e.dependent
    FROM json_each(?1) AS wanted CROSS JOIN stem_edges AS e ON e.prerequisite = wanted.value
    UNION
    SELECT w.root, e.dependent
    FROM waiting AS w
    CROSS JOIN stem_tasks AS t ON t.seq = w.seq
    CROSS JOIN stem_edges AS e ON e.prerequisite = w.seq
    WHERE t.ended_at IS NOT NULL AND t.finished_at <= ?2
        AND (t.joins IS NOT NULL OR EXISTS (SELECT 1 FROM stem_blocked AS b WHERE b.seq = t.seq))
)
SELECT DISTINCT w.root
FROM waiting AS w CROSS JOIN stem_tasks AS d ON d.seq = w.seq
WHERE d.ended_at IS NULL OR (
    d.finished_at > ?2
    AND (d.joins IS NOT NULL OR EXISTS (SELECT 1 FROM stem_blocked AS b WHERE b.seq = d.seq))
)
