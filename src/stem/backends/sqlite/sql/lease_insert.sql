-- A claim: nobody else can hold these tasks now.
INSERT INTO stem_leases (seq, fence, leased_until) SELECT value, ?2, ?3 FROM json_each(?1)
