-- Rollups.read: read the rows of some minutes, in order.
SELECT body FROM {s}.rollups
WHERE ns = %(ns)s AND minute >= %(since)s AND minute < %(until)s ORDER BY minute, digest
