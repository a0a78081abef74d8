-- The holder's end frees its key, and never another's.
DELETE FROM stem_uniques WHERE ns = ? AND key = ? AND holder = ?
