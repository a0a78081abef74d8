-- Delete a bounded number of ended records past their retention, oldest first.
DELETE FROM stem_tasks WHERE seq IN (
    SELECT seq FROM stem_tasks WHERE ns = ? AND ended_at <= ? ORDER BY ended_at LIMIT ?
)
