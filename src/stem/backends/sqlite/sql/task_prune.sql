-- Ended records that retention has outlived, oldest first; bounded work.
DELETE FROM stem_tasks WHERE seq IN (
    SELECT seq FROM stem_tasks WHERE ns = ? AND ended_at <= ? ORDER BY ended_at LIMIT ?
)
