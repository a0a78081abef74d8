-- A claim: nobody else can hold the task now.
INSERT INTO stem_leases (seq, fence, leased_until) VALUES (?, ?, ?)
