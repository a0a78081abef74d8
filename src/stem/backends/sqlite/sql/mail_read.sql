-- Read the live messages of a box or channel after a number, oldest first.
SELECT number, message FROM stem_mail
WHERE ns = ? AND kind = ? AND topic = ? AND number > ? AND expires_at > ? ORDER BY number LIMIT ?
