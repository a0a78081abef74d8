-- Its holder lives.
DELETE FROM stem_lost WHERE ns = ? AND id = ? AND fence = ?
