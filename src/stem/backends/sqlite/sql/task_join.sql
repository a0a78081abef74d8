-- Mark a task that ends when those it waits for have ended.
UPDATE stem_tasks SET joins = 1 WHERE seq = ?
