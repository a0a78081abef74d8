-- Keys that time has freed are found without a look at the others.
CREATE INDEX stem_uniques_by_end ON stem_uniques (ns, held_until) WHERE held_until IS NOT NULL
