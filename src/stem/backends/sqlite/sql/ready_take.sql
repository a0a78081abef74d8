-- Remove claimed tasks from the queue: all up to the last one, because claims take from the front.
DELETE FROM stem_ready WHERE ns = ? AND queue = ? AND (rank, seq) <= (?, ?)
