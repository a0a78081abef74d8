-- The namespace's watch.
SELECT seen_at, since FROM stem_watch WHERE ns = ?
