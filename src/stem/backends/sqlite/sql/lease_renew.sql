-- A lease never ends earlier than it did.
UPDATE stem_leases SET leased_until = max(leased_until, ?) WHERE seq = ?
