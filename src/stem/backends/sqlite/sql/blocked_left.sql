-- Write how many prerequisites of a task are still missing.
UPDATE stem_blocked SET missing = ? WHERE seq = ?
