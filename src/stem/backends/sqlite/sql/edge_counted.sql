-- A failed prerequisite has counted: it does not again, however often it ends.
UPDATE stem_edges SET pending = 0 WHERE prerequisite = ? AND dependent = ?
