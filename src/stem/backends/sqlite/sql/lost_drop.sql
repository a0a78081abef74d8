-- Forget that this lease was reclaimed: its holder lives.
DELETE FROM stem_lost WHERE ns = ? AND id = ? AND fence = ?
