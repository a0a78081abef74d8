-- A reader that follows versions reads only what is new.
CREATE UNIQUE INDEX stem_revokes_by_version ON stem_revokes (ns, version)
