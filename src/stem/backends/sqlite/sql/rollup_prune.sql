-- Minutes that the retention of events has outlived; bounded work.
DELETE FROM stem_rollups WHERE (ns, minute, digest) IN (
    SELECT ns, minute, digest FROM stem_rollups WHERE ns = ? AND minute <= ? LIMIT ?
)
