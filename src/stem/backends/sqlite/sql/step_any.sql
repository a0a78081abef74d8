-- Tell whether a task has a step of this name.
SELECT EXISTS (SELECT 1 FROM stem_steps WHERE task = ? AND name = ?)
