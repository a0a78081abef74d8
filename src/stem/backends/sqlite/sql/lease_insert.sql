-- Lease claimed tasks; nobody else can claim them now.
INSERT INTO stem_leases (seq, fence, leased_until) SELECT value, ?2, ?3 FROM json_each(?1)
