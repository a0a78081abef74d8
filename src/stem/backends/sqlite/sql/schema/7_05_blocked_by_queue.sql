-- The blocked tasks of a queue are counted without a look at the others.
CREATE INDEX stem_blocked_by_queue ON stem_blocked (ns, queue) WHERE is_waiting = 1
