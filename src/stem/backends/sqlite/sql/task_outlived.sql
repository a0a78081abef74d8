-- Read a bounded number of ended records past their retention, oldest first, and whether anybody waited for them.
SELECT seq, awaited FROM stem_tasks WHERE ns = ? AND ended_at <= ? ORDER BY ended_at LIMIT ?
