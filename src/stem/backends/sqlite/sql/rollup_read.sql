-- Read the rows of some minutes, in order.
SELECT body FROM stem_rollups WHERE ns = ? AND minute >= ? AND minute < ? ORDER BY minute, digest
