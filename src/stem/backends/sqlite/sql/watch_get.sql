-- Read the reclaim watch of the namespace.
SELECT seen_at, since FROM stem_watch WHERE ns = ?
