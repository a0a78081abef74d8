-- Forget leases that were reclaimed long ago.
DELETE FROM stem_lost WHERE ns = ? AND at <= ?
