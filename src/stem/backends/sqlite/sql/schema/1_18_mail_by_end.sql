-- Expired mail is found without a look at the rest.
CREATE INDEX stem_mail_by_end ON stem_mail (ns, expires_at)
