-- Where the best of one queue stand, without a look at the tasks.
SELECT rank, seq FROM stem_ready WHERE ns = ? AND queue = ? ORDER BY rank, seq LIMIT ?
