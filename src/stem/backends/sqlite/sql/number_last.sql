-- Read the last number that was handed out.
SELECT value FROM stem_numbers WHERE ns = ? AND name = ?
