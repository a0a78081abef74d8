-- Mark a cancelled task that counts as a success.
UPDATE stem_tasks SET passes = 1 WHERE seq = ?
