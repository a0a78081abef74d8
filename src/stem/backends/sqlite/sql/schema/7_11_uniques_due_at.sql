-- When the holder was due as it was pushed, so that it is found if it is still delayed; NULL in rows of earlier versions.
ALTER TABLE stem_uniques ADD COLUMN due_at REAL
