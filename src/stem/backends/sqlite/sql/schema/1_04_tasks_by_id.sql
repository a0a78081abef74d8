-- An id is one task of its namespace.
CREATE UNIQUE INDEX stem_tasks_by_id ON stem_tasks (ns, id)
