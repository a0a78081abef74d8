-- Renew a lease. It never ends earlier than before.
UPDATE stem_leases SET leased_until = max(leased_until, ?) WHERE seq = ?
