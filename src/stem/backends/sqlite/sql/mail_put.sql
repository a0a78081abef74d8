-- A message that expires.
INSERT INTO stem_mail (ns, kind, topic, number, expires_at, message) VALUES (?, ?, ?, ?, ?, ?)
