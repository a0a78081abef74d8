-- Delete a bounded number of minutes that are past the retention of events.
DELETE FROM stem_rollups WHERE (ns, minute, digest) IN (
    SELECT ns, minute, digest FROM stem_rollups WHERE ns = ? AND minute <= ? LIMIT ?
)
