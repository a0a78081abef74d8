-- Delete these leases; a late holder is refused.
DELETE FROM stem_leases WHERE seq IN (SELECT value FROM json_each(?))
