-- Read the envelopes of those of these tasks that may name a tenant.
SELECT t.seq, CAST(t.body AS BLOB) FROM json_each(?) AS wanted
CROSS JOIN stem_tasks AS t ON t.seq = wanted.value
WHERE instr(t.body, CAST('"tenant"' AS BLOB)) > 0
