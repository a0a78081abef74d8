-- What retention has outlived is found without a look at the rest.
CREATE INDEX stem_tasks_by_end ON stem_tasks (ns, ended_at) WHERE ended_at IS NOT NULL
