-- Schedules.wait: figures that differ after any entry was written or deleted. The highest revision alone would not do: one
-- drawn earlier may be committed later.
SELECT count(*), max(revision), sum(revision) FROM {s}.schedules WHERE ns = %(ns)s
