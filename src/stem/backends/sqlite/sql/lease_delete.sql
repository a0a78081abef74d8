-- The lease is good no longer; a late holder is refused.
DELETE FROM stem_leases WHERE seq = ?
