-- Schedules.write of a new entry: store it unless one has its id; return its revision.
INSERT INTO {s}.schedules (ns, id, due_at, entry, state) VALUES (%(ns)s, %(id)s, %(due_at)s, %(entry)s, %(state)s)
ON CONFLICT (ns, id) DO NOTHING RETURNING revision
