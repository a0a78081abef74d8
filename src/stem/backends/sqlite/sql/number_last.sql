-- The last number handed out.
SELECT value FROM stem_numbers WHERE ns = ? AND name = ?
