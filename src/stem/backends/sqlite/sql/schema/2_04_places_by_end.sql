-- Places whose holder is gone are found without a look at the rest.
CREATE INDEX stem_places_by_end ON stem_places (ns, expires_at)
