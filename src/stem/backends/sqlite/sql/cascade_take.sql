-- Take ended tasks, not all of whose dependents have been cancelled.
DELETE FROM stem_cascades WHERE seq IN (SELECT seq FROM stem_cascades WHERE seq BETWEEN ? AND ? ORDER BY seq LIMIT ?)
RETURNING seq
