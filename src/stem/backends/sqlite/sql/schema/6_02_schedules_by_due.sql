-- What is due is found without a look at the rest.
CREATE INDEX stem_schedules_by_due ON stem_schedules (ns, due_at) WHERE due_at IS NOT NULL
