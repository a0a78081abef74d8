-- Buckets that are full again are found without a look at the rest.
CREATE INDEX stem_buckets_by_end ON stem_buckets (ns, expires_at)
