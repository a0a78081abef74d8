-- Read the places of the best tasks of one queue, without reading the tasks.
SELECT rank, seq, queue FROM stem_ready WHERE ns = ? AND queue = ? ORDER BY rank, seq LIMIT ?
