-- Schedules.wait: the highest revision, which most writes raise. One that was drawn earlier may be committed later, and a
-- delete raises none: of those the notification tells, or the entry that is due next.
SELECT revision FROM {s}.schedules WHERE ns = %(ns)s ORDER BY revision DESC LIMIT 1
