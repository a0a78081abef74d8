-- Ended tasks, not all of whose dependents have been cancelled yet. `seq` is the task's.
CREATE TABLE stem_cascades (seq INTEGER PRIMARY KEY)
