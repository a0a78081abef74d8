-- Read the envelopes of these tasks.
SELECT t.seq, CAST(t.body AS BLOB) FROM json_each(?) AS wanted
CROSS JOIN stem_tasks AS t ON t.seq = wanted.value
